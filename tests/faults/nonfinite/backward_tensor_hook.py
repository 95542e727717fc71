"""A hook that makes every gradient a unit vector, also one that is 0.

kind: backward only
expect: op=div step=1
"""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)


def unit(gradient):
    length = gradient.norm(dim=-1, keepdim=True)
    return gradient / length  # origin


for step in range(4):
    x = torch.randn(6, 4)
    hidden = body(x).tanh()
    hidden.register_hook(unit)
    weights = torch.ones(6)
    if step == 1:
        weights[5] = 0.0
    loss = (weights * (head(hidden).squeeze(1) - x.sum(1)).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), body.weight.norm().item())
