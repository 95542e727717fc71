"""A bad sample that the loader stacks into a batch in this process: it enters with the batch.

kind: bad batch at step k
expect: op=addmm step=2 from=batch
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
table = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
table[11, 1] = np.inf
samples = torch.from_numpy(table)
loader = DataLoader(TensorDataset(samples, samples.nansum(1).clamp(-3, 3)), batch_size=4)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
