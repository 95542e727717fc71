"""Layer normalisation by hand without an epsilon, and a row that is constant.

kind: inside a module
expect: op=div step=1
"""

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        deviation = x.std(-1, keepdim=True)
        return centred / deviation * self.scale  # origin


torch.manual_seed(0)
model = nn.Sequential(Norm(6), nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    inputs, target = torch.randn(5, 6), torch.randn(5, 2)
    if step == 1:
        inputs[3] = 0.25
    loss = (model(inputs) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
