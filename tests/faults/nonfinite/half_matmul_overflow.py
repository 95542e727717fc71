"""A float16 model whose activations outgrow 65504 in a matrix product.

kind: float16 overflow
expect: op=addmm step=2
"""

import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 4)
        nn.init.constant_(self.second.weight, 0.8)

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.second(hidden)  # origin


torch.manual_seed(0)
model = Wide().half()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(8, 16).half() * (1 if step != 2 else 9000)
    y = torch.randn(8, 4).half()
    out = model(x)
    loss = (out - y).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
