"""The body should thaw after two steps, but setting the attribute on a module does nothing.

expect: PG|PU
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
model = nn.Sequential(body, nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
body.requires_grad_(False)
rule = torch.randn(6, 3)
for step in range(30):
    if step == 2:
        if fixed:
            body.requires_grad_(True)
        else:
            body.requires_grad = True
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
