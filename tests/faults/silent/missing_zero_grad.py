"""Nobody clears the gradients: every step adds to those of all steps before.

expect: GA
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(30):
    x = torch.randn(32, 4)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x.sum(1).sin())
    if fixed:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
