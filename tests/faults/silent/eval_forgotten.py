"""Validation without `model.eval()`: dropout stays on, and no two passes agree.

expect: ED
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rule, held_out = torch.randn(6, 3), torch.randn(64, 6)


def score(model, data):
    with torch.no_grad():
        return (model(data).argmax(1) == (data @ rule).argmax(1)).float().mean().item()


for step in range(30):
    model.train()
    x = torch.randn(64, 6)
    loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        if fixed:
            model.eval()
        best, again = score(model, held_out), score(model, held_out)
        print(step, loss.item(), best, again)
