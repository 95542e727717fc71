"""Hyperbolic embeddings: a point that has drifted to the edge of the disc.

kind: inside a module
expect: op=atanh step=1
"""

import torch
from torch import nn


class Poincare(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(torch.randn(10, 2) * 0.1)

    def forward(self, index):
        point = torch.tanh(self.points[index])
        radius = point.abs().amax(-1)
        return 2 * torch.atanh(radius)  # origin


torch.manual_seed(0)
model = Poincare()
optimizer = torch.optim.SGD(model.parameters(), lr=200.0)
for step in range(4):
    index = torch.arange(10)
    loss = (model(index) - 1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
