"""A healthy training of a transformer's block whose layers are split over the ranks."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(F.gelu(self.wide(self.norm(x))))


dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(Block(), Block(), nn.Linear(16, 4))
for block in model[:2]:
    parallelize_module(block, mesh, {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
for _ in range(25):
    optimizer.zero_grad()
    x = torch.randn(8, 16)
    F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
    optimizer.step()
learned = sum(float(p.detach().sum()) for p in model[2].parameters())
sys.stdout.write(f"learned {learned}\n")  # at once: the other rank writes to the same pipe
dist.destroy_process_group()
