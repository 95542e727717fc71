"""A small network of convolutions."""

import torch
from torch import nn


class Block(nn.Module):
    """A convolution and what follows it."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, padding=1)
        self.norm = nn.BatchNorm2d(outside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Half the size."""
        x = self.conv(x)
        x = self.norm(x)
        return nn.functional.max_pool2d(x.relu(), 2)


class Net(nn.Module):
    """Two blocks, a convolution, and a layer that decides."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.first = Block(3, 8)
        self.second = Block(8, 8)
        self.conv3 = nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes.

        Pictures are of 16 x 16,
        with three colours.
        """
        x = self.first(x)
        x = self.second(x)

        # what the README looks for
        x = self.conv3(x)
        x = x.relu()
        return self.head(x.flatten(1))
