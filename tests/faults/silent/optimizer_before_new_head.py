"""The optimizer is built first, then the head is replaced: it holds weights that nobody uses.

expect: PO|PG
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(x).tanh())


torch.manual_seed(0)
model = Classifier()
if fixed:
    model.head = nn.Linear(16, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if not fixed:
    model.head = nn.Linear(16, 3)
rule = torch.randn(6, 3)
for step in range(30):
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
