"""A spread as sqrt(E[x²] - E[x]²): rounding makes it the root of a negative number.

kind: loss expression
expect: op=sqrt step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
offsets = [0.0, 0.0, 4097.3, 0.0]

for step, offset in enumerate(offsets):
    inputs = torch.randn(16, 4)
    out = model(inputs)
    out = out * (1.0 if offset == 0 else 1e-6) + offset
    spread = torch.sqrt((out**2).mean(0) - out.mean(0) ** 2)  # origin
    loss = (spread - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
