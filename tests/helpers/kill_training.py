"""A training that notes where it is in a file of its own, and is killed at a random moment.

kill_training.py FOLDER SEED
"""

import mmap
import os
import random
import struct
import subprocess
import sys

import torch
from torch import nn

OPERATORS = ("sigmoid", "tanh", "cos", "sin", "softplus", "atan", "erf", "exp")
BEGIN, BACKWARD, OPTIMIZER = 99, 100, 101

if __name__ == "__main__":
    folder, seed = sys.argv[1], int(sys.argv[2])
    with open(os.path.join(folder, "truth"), "w+b") as file:  # noqa: PTH118
        file.truncate(16)
        truth = mmap.mmap(file.fileno(), 16)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.fc(x)
            for number, name in enumerate(OPERATORS):
                struct.pack_into("<q", truth, 8, number)
                x = getattr(nn.functional if name == "softplus" else torch, name)(x)
            return x.sum()

    torch.manual_seed(seed)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    step = 0
    while True:
        struct.pack_into("<q", truth, 8, BEGIN)
        loss = net(torch.randn(4, 8))
        struct.pack_into("<q", truth, 8, BACKWARD)
        optimizer.zero_grad()
        loss.backward()
        struct.pack_into("<q", truth, 8, OPTIMIZER)
        optimizer.step()
        step += 1
        struct.pack_into("<q", truth, 0, step)
        if step == 5:
            wait = random.Random(seed).uniform(0.0, 0.3)
            subprocess.Popen(["sh", "-c", f"sleep {wait:.4f}; kill -9 {os.getpid()}"])
