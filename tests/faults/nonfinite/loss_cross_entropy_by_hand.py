"""Softmax cross entropy by hand, without taking the maximum off first.

kind: loss expression
expect: op=exp step=1
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=50.0)
inputs, target = torch.randn(16, 4), torch.randint(0, 5, (16,))


def cross_entropy(logits, target):
    weights = torch.exp(logits)  # origin
    picked = weights[torch.arange(len(target)), target]
    return -(picked / weights.sum(1)).log().mean()


for step in range(5):
    optimizer.zero_grad()
    loss = cross_entropy(model(inputs), target)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
