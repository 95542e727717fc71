"""Losses kept as lambdas in a table; the relative one divides by a target of 0.

kind: lambda in the loss
expect: op=div step=1
"""

import torch
from torch import nn

torch.manual_seed(0)
losses = {
    "mse": lambda guess, truth: (guess - truth).square().mean(),
    "relative": lambda guess, truth: ((guess - truth) / truth).abs().mean(),  # origin
}
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(4):
    inputs = torch.randn(8, 3)
    truth = inputs.sum(1, keepdim=True) + 5
    if step == 1:
        truth[4] = 0.0
    guess = model(inputs)
    loss = sum(losses[name](guess, truth) for name in ("mse", "relative"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
