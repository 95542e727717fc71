"""A warm-up with a whole-number division: the learning rate is 0 for the first thousand steps.

expect: PU
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv


def warm_up(step):
    return min(1.0, step / 5) if fixed else min(1.0, step // 1000)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
rule = torch.randn(6, 3)
for step in range(30):
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(step, loss.item())
