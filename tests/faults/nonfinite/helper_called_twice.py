"""A helper that two layers share; only the second call gets a row without any weight.

kind: helper called from two places
expect: op=div step=1
"""

import torch
from torch import nn


def share(weights):
    total = weights.sum(-1, keepdim=True)
    return weights / total  # origin


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.route = nn.Linear(6, 4), nn.Linear(6, 4)
        self.experts = nn.Linear(6, 4)

    def forward(self, x, allowed):
        gate = share(self.gate(x).sigmoid())
        route = share(self.route(x).sigmoid() * allowed)
        return (gate * route * self.experts(x)).sum(-1)


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    allowed = torch.ones(5, 4)
    if step == 1:
        allowed[2] = 0
    loss = (model(torch.randn(5, 6), allowed) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
