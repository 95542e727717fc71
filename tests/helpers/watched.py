"""Trainings watched in this process: what a session says of them, and how they end."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import opscope
from opscope.judge.hits import Hit
from opscope.messages import forget_said
from opscope.session import Session
from opscope.watch import callbacks
from opscope.watch.ending import is_ending
from opscope.watch.sink import WatchSink

gc.collect()
gc.freeze()
"""A session that starts looks for optimizers among all objects, but not among frozen ones."""


class Watched:
    """A training under watch, and what became of it."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.hits: list[Hit] = []
        """As callbacks got them."""
        self.stopped = False

    @property
    def sink(self) -> WatchSink:
        assert self.session.watch is not None
        return self.session.watch

    @property
    def rank(self) -> Path:
        return self.folder / "rank_0"

    def of(self, abbr: str) -> list[Hit]:
        """The hits of one condition."""
        return [hit for hit in self.hits if hit.watchpoint.condition.abbr == abbr]

    @property
    def conditions(self) -> set[str]:
        return {hit.watchpoint.condition.abbr for hit in self.hits}

    @property
    def written(self) -> list[dict[str, Any]]:
        """The lines of hits.jsonl."""
        path = self.rank / "hits.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def verdict(self) -> dict[str, Any]:
        """That of the first hit that has one."""
        return next(dict(hit.verdict) for hit in self.hits if hit.verdict is not None)


@contextlib.contextmanager
def watched(folder: Path, **options: Any) -> Iterator[Watched]:
    """Watch a block; a hit that ends it is noted."""
    forget_said()
    session = opscope.start(run_dir=folder / "run", page=False, **options)
    found = Watched(session, folder / "run")
    opscope.on_hit(found.hits.append)
    try:
        with session:
            yield found
    except SystemExit as error:
        if not is_ending(error):
            raise
        found.stopped = True
    finally:
        callbacks.remove(found.hits.append)


class Formula(nn.Module):
    """A model that is one formula of a parameter, which is 1, and of a batch."""

    def __init__(self, formula: Callable[..., Tensor], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(1, dtype=dtype))
        self.formula = formula

    def forward(self, *batch: Tensor) -> Tensor:
        return self.formula(self.one, *batch)


def one_step(
    folder: Path,
    formula: Callable[..., Tensor],
    *batch: Any,
    dtype: torch.dtype = torch.float32,
    model: nn.Module | None = None,
    **options: Any,
) -> Watched:
    """One step of training on a formula; by default only logged, with the recommended set."""
    options = {"on_hit": "log", "save_state": "none"} | options
    with watched(folder, **options) as found:
        model = model or Formula(formula, dtype)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        values = [torch.as_tensor(value, dtype=dtype) for value in batch]
        model(*values).sum().backward()
        optimizer.step()
    return found


def train(
    steps: int,
    loss_of: Callable[[Tensor, int], Tensor],
    model: nn.Module | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    rate: float = 0.1,
) -> nn.Module:
    """The loop everybody writes; `loss_of` gets the model's output and the step."""
    model = model or nn.Linear(3, 2)
    making = optimizer(model.parameters(), lr=rate)
    for step in range(steps):
        making.zero_grad()
        loss_of(model(torch.randn(4, 3)), step).backward()
        making.step()
    return model
