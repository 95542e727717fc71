"""Two ranks; only rank 1 reads a bad batch, and the all-reduce spreads it.

kind: DDP
expect: op=addmm step=1 rank=1 from=batch
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())  # origin


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(Net())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
table = np.random.default_rng(rank).normal(size=(4, 6, 4)).astype(np.float32)
if rank == 1:
    table[1, 2, 0] = np.nan
for step in range(4):
    x = torch.from_numpy(table[step])
    loss = nn.functional.cross_entropy(model(x), torch.arange(6) % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(rank, step, loss.item())
dist.destroy_process_group()
