"""Gradients scaled to a norm by hand; when all of them are 0, by 1/0.

kind: between backward and optimizer
expect: op=reciprocal step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def scale_gradients(parameters, norm):
    gradients = [p.grad for p in parameters]
    total = torch.sqrt(sum(g.pow(2).sum() for g in gradients))
    factor = norm / total  # origin
    for gradient in gradients:
        gradient.mul_(factor)


for step in range(4):
    x = torch.randn(8, 4)
    weight = 0.0 if step == 2 else 1.0
    loss = weight * (model(x).squeeze(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    scale_gradients(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())
