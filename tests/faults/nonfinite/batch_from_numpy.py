"""A bad row in a file of measurements, in the third batch of a loader with a collate of its own.

kind: bad batch at step k
expect: op=addmm step=2 from=batch
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


def collate(rows):
    table = np.stack(rows)
    return torch.from_numpy(table[:, :-1].copy()), torch.from_numpy(table[:, -1:].copy())


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        hidden = self.first(x)  # origin
        return self.second(hidden.relu())


torch.manual_seed(0)
rows = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
rows[9, 2] = np.nan
model = Regression()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(rows, batch_size=4, collate_fn=collate)):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
