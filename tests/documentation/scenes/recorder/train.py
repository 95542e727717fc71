"""A small GPT; somebody ends it while it computes step 12."""

import os
import signal

import torch
from torch import nn


class GPT(nn.Module):
    """Blocks, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number."""
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


class Block(nn.Module):
    """A layer beside what goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(16)
        self.fc = nn.Linear(16, 16)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add."""
        self.calls += 1
        normal = self.ln(x)
        if self is net.blocks[3] and self.calls == 13:
            os.kill(os.getpid(), signal.SIGTERM)

        return x + self.fc(normal)


torch.manual_seed(0)
net = GPT()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
for _ in range(20):
    loss = net(torch.randn(4, 16))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
