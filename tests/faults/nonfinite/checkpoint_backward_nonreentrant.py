"""The same with the newer kind of checkpoint, and x**0.5 over a helper outside the module.

kind: checkpointed code, backward only
expect: op=pow step=1
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def magnitude(x):
    power = x.square().sum(-1)
    return power**0.5  # origin


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 5, bias=False), nn.Linear(1, 1)

    def block(self, x):
        return magnitude(self.body(x)).unsqueeze(-1)

    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=False))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(4, 3)
    if step == 1:
        x[2] = 0.0
    loss = (model(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model.body.weight.norm().item())
