"""A learning rate that is merely too large: the loss grows until its square overflows.

kind: fault that appears only at step k
expect: op=pow step=5
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=3000.0)
x = torch.randn(32, 4)
y = x.sum(1)
for step in range(12):
    error = model(x).squeeze(1) - y
    loss = error.pow(2).mean()  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
