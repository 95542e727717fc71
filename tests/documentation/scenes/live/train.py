"""Two convolutions, trained until a batch is empty."""

import time

import torch
from torch import nn


class Net(nn.Module):
    """Two convolutions with a relu each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number per picture."""
        return self.conv2(self.conv1(x).relu()).relu().mean((1, 2, 3))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10_000):
    x = torch.randn(4, 3, 8, 8)
    loss = net(x / x.std() if step != 20 else x * 0 / 0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
