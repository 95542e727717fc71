"""The trainings that step times are measured on; call one to do a step."""

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


def operators(count: int) -> Training:
    """About so many operators of 8 elements: half forward, half backward, in chains of 250."""
    model = nn.ParameterList([nn.Parameter(torch.ones(8))])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        total = model[0]
        for _ in range(count // 500):
            value = model[0]
            for _ in range(249):
                value = value * 1.0001
            total = total + value
        total.sum().backward()
        optimizer.step()

    return Training(model, step)


def parameters(count: int, name: str, foreach: bool) -> Training:
    """So many parameters of 8 elements, by SGD or AdamW, with or without foreach operators."""
    model = nn.ParameterList(nn.Parameter(torch.ones(8)) for _ in range(count))
    optimizers = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    optimizer = optimizers[name](model.parameters(), lr=1e-6, foreach=foreach)

    def step() -> None:
        optimizer.zero_grad()
        total = torch.zeros(8)
        for parameter in model:
            total = total + parameter * 2.0
        total.sum().backward()
        optimizer.step()

    return Training(model, step)


def gpt2(compiled: bool, batch: int, length: int) -> Training:
    """Hugging Face's GPT-2-small on a GPU, bfloat16, fused AdamW; every step is waited for."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda()
    called = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        tokens = torch.randint(0, 50257, (batch, length), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = called(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    return Training(model, step)


def make(words: str) -> Training:
    """The training called so: "gpt", "operators 9", "parameters 9 sgd foreach", "gpt2 8 1024"."""
    name, *rest = words.split()
    if name == "gpt2":
        return gpt2(rest[2:] == ["compiled"], int(rest[0]), int(rest[1]))
    if name == "operators":
        return operators(int(rest[0]))
    if name == "parameters":
        return parameters(int(rest[0]), rest[1], foreach=rest[2:] == ["foreach"])
    return WORKLOADS[name][0]()


WORKLOADS = {"gpt": (gpt, 2), "tiny_gpt": (tiny_gpt, 30), "alexnet": (alexnet, 5)}
"""Name → (maker, steps measured per block)."""
