"""A number that a callback watches from epoch to epoch, and whether it gets better."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from opscope.capture.guards import quiet
from opscope.messages import say_once
from opscope.train.run_context import Arguments

_LOSSES = ("loss", "train_loss", "net_output")
_RISING = ("acc", "f1", "precision", "recall", "auc", "bleu", "dice", "topk", "similarity")


class Monitored:
    """A loss or a metric by name: what it is now, and when it is better than before.

    "loss" is the loss of training, "eval_loss" that of the evaluation, and metrics have their own
    names, with or without "eval_". `mode` is "min", "max" or, by the name, "auto".
    """

    def __init__(self, monitor: str, mode: str, min_delta: float, whose: str) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f'mode = {mode!r}: must be "auto", "min" or "max"')
        self.monitor = monitor
        rising = any(part in monitor.lower() for part in _RISING)
        self._sign = 1.0 if mode == "max" or (mode == "auto" and rising) else -1.0
        self._delta = abs(min_delta)
        self._whose = whose

    @property
    def worst(self) -> float:
        """The number that everything is better than."""
        return -self._sign * math.inf

    def is_better(self, value: float, best: float) -> bool:
        """Tell whether a value is better than the best so far, by more than `min_delta`."""
        return self._sign * (value - best) > self._delta

    def value(self, arguments: Arguments) -> float | None:
        """Return what it is now; None if it is not known, said once if it never will be."""
        if self.monitor in _LOSSES:
            return as_number(arguments.net_outputs)
        if "eval_results" not in arguments:
            say_once(f"{self._whose}: nothing evaluates {self.monitor}; Model.fit does")
            return None
        results: dict[str, Any] = arguments.eval_results or {}
        for name in (self.monitor, self.monitor.removeprefix("eval_")):
            if name in results:
                return as_number(results[name])
        if results:
            known = ", ".join(sorted(results))
            say_once(f"{self._whose}: there is no {self.monitor} to watch, only {known}")
        return None


def as_number(value: Any) -> float:
    """A loss or a metric as one number: of several, their mean."""
    with quiet():  # this is no part of what is trained
        if not isinstance(value, torch.Tensor):
            return float(np.mean(np.asarray(value, dtype=np.float64)))
        return float(value.detach().double().mean())
