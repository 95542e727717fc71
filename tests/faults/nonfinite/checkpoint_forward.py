"""A fault in the forward of a block that is checkpointed.

kind: checkpointed code
expect: op=log step=1
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        hidden = self.first(x).relu()
        squeezed = torch.log(hidden + x.abs().mean())  # origin
        return x + self.second(squeezed)


torch.manual_seed(0)
blocks = nn.ModuleList([Block(), Block()])
optimizer = torch.optim.Adam(blocks.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(4, 6, requires_grad=True)
    if step == 1:
        x = torch.zeros(4, 6, requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    loss = x.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
