"""Two epochs of the training kit."""

import torch
from torch import nn

from opscope.train import Model


class Net(nn.Linear):
    """A layer."""


net = Net(4, 2)
model = Model(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1))
model.train(2, [(torch.randn(8, 4), torch.arange(8) % 2)])
