"""Three steps of one convolution."""

import torch
from torch import nn


class Net(nn.Module):
    """A convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number."""
        return self.conv(x).square().mean()


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(2, 3, 8, 8)).backward()
    optimizer.step()
