"""Whitening by an eigendecomposition; its backward divides by differences of equal eigenvalues.

kind: backward only
expect: op=div_ step=1
"""

import torch
from torch import nn


class Whiten(nn.Module):
    def forward(self, x):
        covariance = x.T @ x / len(x) + 0.1 * torch.eye(x.shape[1])
        values, vectors = torch.linalg.eigh(covariance)  # origin
        return x @ vectors / values.sqrt()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 3, bias=False), Whiten(), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 4)
    if step == 1:
        x = torch.zeros(16, 4)
    loss = (model(x).squeeze(1) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model[0].weight.norm().item())
