"""Two ranks; the shard of rank 1 has an example without any weight at step 2.

kind: DDP
expect: op=log step=2 rank=1
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
for step in range(5):
    x, weights = torch.randn(6, 4), torch.rand(6) + 0.1
    if rank == 1 and step == 2:
        weights[3] = 0.0
    error = (model(x).squeeze(1) - x.sum(1)).square()
    loss = (error + 0.1 * torch.log(weights)).mean()  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(rank, step, loss.item())
dist.destroy_process_group()
