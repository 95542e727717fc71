"""Binary cross entropy by hand, written over several lines; one sigmoid saturates at 1.

kind: loss expression
expect: op=log step=3
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(6, 8, 3)
inputs[3, 2] = 80.0 * torch.ones(3)
labels = (inputs.sum(2) > 0).float()
with torch.no_grad():
    model.weight.fill_(1.0)

for step in range(6):
    p = torch.sigmoid(model(inputs[step]).squeeze(1))
    y = labels[step]
    loss = -(
        y * torch.log(p)  # what is there
        + (1 - y) * torch.log(1 - p)  # origin
    ).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
