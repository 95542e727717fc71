"""A loss put together in a list comprehension over ragged sequences; one of them is empty.

kind: list comprehension in the loss
expect: op=mean step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sizes = [(3, 4, 2), (5, 1, 1), (2, 0, 3), (4, 4, 4)]

for step, lengths in enumerate(sizes):
    scores = [model(torch.randn(n, 5)).squeeze(1) for n in lengths]
    parts = [
        (s - 1).square().mean()  # origin
        for s in scores
    ]
    loss = torch.stack(parts).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
