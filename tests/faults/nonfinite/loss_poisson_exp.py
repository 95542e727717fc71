"""Poisson regression on features that nobody scaled: the rate overflows.

kind: loss expression
expect: op=exp step=4
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[0.5, 0.5]]))
ages = torch.rand(6, 10, 2)
ages[4, 7] = torch.tensor([95.0, 110.0])
counts = torch.randint(0, 4, (6, 10)).float()

for step in range(6):
    log_rate = model(ages[step]).squeeze(1)
    loss = (log_rate.exp() - counts[step] * log_rate).mean()  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
