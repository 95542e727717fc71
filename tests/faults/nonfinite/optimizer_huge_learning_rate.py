"""A learning rate with a typo in its exponent: the weights themselves overflow.

kind: optimizer
expect: op=add_ step=0
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=3e38)
for step in range(3):
    x = torch.randn(16, 8) + 2
    loss = (model(x).squeeze(1) - 10).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # origin
    print(step, loss.item())
