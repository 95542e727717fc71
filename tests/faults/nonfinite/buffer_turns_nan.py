"""Class weights in a buffer, refreshed through NumPy: a class without examples gets 0/0.

kind: buffer from outside
expect: op=mul step=2 from=buffer
"""

import numpy as np
import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 3)
        self.register_buffer("weights", torch.ones(3))

    def refresh(self, right, seen):
        with np.errstate(all="ignore"):
            self.weights.numpy()[:] = 1 - right / seen

    def forward(self, x, target):
        chances = self.body(x).log_softmax(-1)
        weighted = chances * self.weights  # origin
        return -weighted[torch.arange(len(x)), target].mean()


torch.manual_seed(0)
model = Weighted()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x, target = torch.randn(9, 5), torch.arange(9) % (3 if step != 1 else 2)
    loss = model(x, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen = np.bincount(target.numpy(), minlength=3)
    model.refresh(np.minimum(seen, 1), seen)
    print(step, loss.item())
