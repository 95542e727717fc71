"""What the blocks of the page take as given."""

import torch
from torch import nn


class Layer(nn.Module):
    """A layer with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)


model = nn.Module()
model.layers = nn.ModuleList(Layer() for _ in range(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
