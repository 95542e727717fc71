"""`Metric`, the base of all metrics, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


class Metric(ABC):
    """The base of metrics, a person's own too: override `clear`, `update` and `eval`."""

    _indexes: tuple[int, ...] = (1, 2)

    @property
    def indexes(self) -> tuple[int, ...]:
        """The choice of loss, output and label that `update` is called with."""
        return self._indexes

    def set_indexes(self, indexes: Sequence[int]) -> Metric:
        """Have `update` called with others of loss (0), output (1) and label (2)."""
        self._indexes = tuple(indexes)
        return self

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take in a batch."""

    @abstractmethod
    def eval(self) -> Any:
        """The result over all batches since `clear`."""


class EvaluationBase(Metric):
    """The base of metrics over classes: one label per sample, or several ("multilabel")."""

    def __init__(self, eval_type: str = "classification") -> None:
        if eval_type not in ("classification", "multilabel"):
            raise ValueError(f'eval_type = {eval_type!r}: must be "classification" or "multilabel"')
        self._type = eval_type
        self.clear()


class NoSamplesError(RuntimeError):
    """A metric was asked for its result before it had seen anything."""

    def __init__(self, metric: Metric) -> None:
        name = type(metric).__name__
        super().__init__(f"{name} has no samples: call update before eval, with data that has some")


def tensor(value: Any) -> torch.Tensor:
    """A tensor of what was given, without its history; on the device it is on."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.as_tensor(np.asarray(value))


def expect_inputs(metric: Metric, inputs: Sequence[Any], count: int, what: str) -> None:
    """Raise unless `update` was called with so many values."""
    if len(inputs) != count:
        name = type(metric).__name__
        raise ValueError(f"{name}.update takes {count} values ({what}), not {len(inputs)}")
