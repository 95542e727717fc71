"""A fault in the backward of a block that is checkpointed: its forward runs twice and is sound.

kind: checkpointed code, backward only
expect: op=div step=2
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Length(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5, bias=False)

    def forward(self, x):
        squares = self.inner(x).square().sum(-1)
        return squares.sqrt()  # origin


torch.manual_seed(0)
body, length = nn.Linear(3, 5, bias=False), Length()
optimizer = torch.optim.SGD([*body.parameters(), *length.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(4, 3)
    if step == 2:
        x[0] = 0.0
    lengths = checkpoint(length, body(x), use_reentrant=True)
    loss = (lengths - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), body.weight.norm().item())
