"""A distance by hand between two points that are the same: the root has no slope there.

kind: backward only
expect: op=div step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def distance(a, b):
    squares = (a - b).pow(2).sum(-1)
    return torch.sqrt(squares)  # origin


for step in range(5):
    anchor, same, other = torch.randn(3, 6, 4)
    if step == 2:
        same[1] = anchor[1]
    near = distance(model(anchor), model(same))
    far = distance(model(anchor), model(other))
    loss = torch.relu(near - far + 1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model[0].weight.norm().item())
