"""Standardisation over the batch; the last batch of an epoch has one element.

kind: inside a module
expect: op=std step=3
"""

import torch
from torch import nn


class Standardise(nn.Module):
    def forward(self, x):
        deviation = x.std(0)  # origin
        return (x - x.mean(0)) / (deviation + 1e-5)


torch.manual_seed(0)
inputs = torch.randn(25, 4)
target = inputs @ torch.tensor([1.0, -2.0, 0.5, 0.0])
model = nn.Sequential(nn.Linear(4, 8), Standardise(), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in zip(inputs.split(8), target.split(8), strict=True):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
