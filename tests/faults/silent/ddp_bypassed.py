"""Every fifth step calls the module inside: its gradients are not averaged over the ranks.

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
    network = model.module if step % 5 == 4 and not fixed else model
    loss = nn.functional.mse_loss(network(x).squeeze(1), x.sum(1).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(dist.get_rank(), step, loss.item())
dist.destroy_process_group()
