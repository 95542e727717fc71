"""Clipping belongs to the training, not to the logging that only rank 0 does.

expect: RD
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

fixed = "--fixed" in sys.argv
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
for step in range(25):
    x = torch.randn(32, 4)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x.sum(1).sin())
    optimizer.zero_grad()
    loss.backward()
    if dist.get_rank() == 0 or fixed:
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        print(step, loss.item(), norm.item())
    optimizer.step()
dist.destroy_process_group()
