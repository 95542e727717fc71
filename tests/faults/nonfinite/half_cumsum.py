"""Positions by a running sum in float16.

kind: float16 overflow
expect: op=cumsum step=0
"""

import torch
from torch import nn

torch.manual_seed(0)
speed = nn.Linear(4, 1)
optimizer = torch.optim.SGD(speed.parameters(), lr=1e-6)


def positions(features):
    steps = 100 * speed(features).squeeze(-1).sigmoid()
    return torch.cumsum(steps.half(), dim=-1)  # origin


for step in range(3):
    track = positions(torch.randn(2, 1500, 4))
    loss = (track / 1000).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
