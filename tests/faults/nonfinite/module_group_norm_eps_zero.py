"""Group normalisation with eps=0 and a group that a ReLU has switched off.

kind: inside a module
expect: op=native_group_norm step=1
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4, eps=0.0)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.conv(x).relu()
        hidden = self.norm(hidden)  # origin
        return self.head(hidden.mean((2, 3)))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 1:
        model.conv.bias.data[:2] -= 10
    loss = nn.functional.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
