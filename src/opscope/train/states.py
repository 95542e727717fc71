"""Leaving training as it was: which modules train, and the states of random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def evaluating(*networks: object) -> Iterator[None]:
    """In evaluation mode and without gradients inside; each module as it was, afterwards."""
    outer = [network for network in networks if isinstance(network, nn.Module)]
    modes = [(module, module.training) for network in outer for module in network.modules()]
    for network in outer:
        network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Random numbers drawn inside change nothing of those drawn afterwards."""
    own, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(_devices()):
        try:
            yield
        finally:
            random.setstate(own)
            np.random.set_state(numpys)


def _devices() -> list[int]:
    """GPUs that are in use; others have no random numbers to keep."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
