"""What the blocks of the README take as given."""

import torch
from torch import nn


class Layers(nn.Module):
    """A few layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        for block in self.blocks:
            x = block(x).relu()
        return x


torch.manual_seed(0)
net = Layers()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_fn = nn.CrossEntropyLoss()
loader = valid_loader = [(torch.randn(8, 4), torch.arange(8) % 4)]


def train() -> None:
    """Two steps."""
    for inputs, labels in loader * 2:
        optimizer.zero_grad()
        loss_fn(net(inputs), labels).backward()
        optimizer.step()
