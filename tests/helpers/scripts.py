"""Scripts that several tests run as programs."""

from __future__ import annotations

LOG_OF_ZERO = """
import os, signal, sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for step in range(6):
        optimizer.zero_grad()
        out = model(torch.randn(4, 3))
        loss = (out * 0).log().sum() if step == 2 else out.square().sum()
        loss.backward()
        optimizer.step()
        os.write(1, b"step %d\\n" % step)
"""
"""A training that can be called, which goes wrong in step 2 and tells of its steps."""
ORIGIN_OF_LOG_OF_ZERO = "origin: train.py:14"
"""The verdict on it, where it is in train.py."""
