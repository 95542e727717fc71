"""Gradient accumulation: the second micro-batch of the third step has no positive examples.

kind: gradient accumulation
expect: op=div step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
micro = 3


def positive_loss(scores, labels):
    hit = (torch.nn.functional.softplus(-scores) * labels).sum()
    return hit / labels.sum()  # origin


for index in range(4 * micro):
    x = torch.randn(6, 4)
    labels = torch.zeros(6) if index == 2 * micro + 1 else (torch.arange(6) % 2).float()
    loss = positive_loss(model(x).squeeze(1), labels) / micro
    loss.backward()
    if index % micro == micro - 1:
        optimizer.step()
        optimizer.zero_grad()
    print(index, loss.item())
