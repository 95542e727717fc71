"""Scaling in place by the largest value, which is 0 for a picture that is black.

kind: in-place operator
expect: op=div_ step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def prepare(pictures):
    pictures = pictures.clone()
    pictures.div_(pictures.amax((1, 2, 3), keepdim=True))  # origin
    return pictures.sub_(0.5)


for step in range(4):
    pictures = torch.rand(3, 1, 6, 6)
    if step == 2:
        pictures[1] = 0
    loss = nn.functional.cross_entropy(model(prepare(pictures)), torch.tensor([0, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
