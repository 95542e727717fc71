"""`F.dropout` is not told that this is an evaluation: `training` is True unless one says so.

expect: ED
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

fixed = "--fixed" in sys.argv


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 32), nn.Linear(32, 3)

    def forward(self, x):
        hidden = self.first(x).tanh()
        hidden = F.dropout(hidden, 0.2, training=self.training or not fixed)
        return self.second(hidden)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    loss = F.cross_entropy(model(x), y)
    right = (model(x).argmax(1) == y).float().mean()
    model.train()
    return loss.item(), right.item()


torch.manual_seed(0)
rule = torch.randn(6, 3)
held_out = torch.randn(64, 6)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    x = torch.randn(64, 6)
    loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(step, loss.item(), evaluate(model, held_out, (held_out @ rule).argmax(1)))
