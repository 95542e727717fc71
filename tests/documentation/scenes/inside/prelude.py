"""What the blocks of the page take as given."""

import torch
from torch import nn


def make_network() -> nn.Module:
    """The same each time, with a part that is not trained."""
    torch.manual_seed(0)
    net = nn.Module()
    net.frozen, net.free = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)
    return net


def train(net: nn.Module) -> None:
    """Two steps."""
    optimizer = torch.optim.SGD(net.free.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net.free(net.frozen(torch.ones(8, 4))).square().mean().backward()
        optimizer.step()
