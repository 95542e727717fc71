"""The three trainings that step times are measured on; call one to do a step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from alexnet import AlexNet
from tiny_gpt import GPT


@dataclass(eq=False, slots=True)
class Training:
    """A model, and what does a step of its training."""

    model: nn.Module
    step: Callable[[], None]

    def __call__(self) -> None:
        self.step()


def gpt() -> Training:
    """6 layers of width 256, batch 4 x 128, vocabulary 4096."""
    return _language(GPT(4096, 128, 256, 8, 6), batch=4, length=128, vocabulary=4096)


def tiny_gpt() -> Training:
    """2 layers of width 64, batch 2 x 32, vocabulary 256."""
    return _language(GPT(256, 32, 64, 4, 2), batch=2, length=32, vocabulary=256)


def _language(model: GPT, batch: int, length: int, vocabulary: int) -> Training:
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)

    def step() -> None:
        tokens = torch.randint(0, vocabulary, (batch, length))
        targets = torch.randint(0, vocabulary, (batch, length))
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return Training(model, step)


def alexnet() -> Training:
    """The example's AlexNet, batch 32."""
    model = AlexNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def step() -> None:
        images, labels = torch.randn(32, 3, 99, 99), torch.randint(0, 10, (32,))
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return Training(model, step)


WORKLOADS = {"gpt": (gpt, 2), "tiny_gpt": (tiny_gpt, 30), "alexnet": (alexnet, 5)}
"""Name → (maker, steps measured per block)."""
