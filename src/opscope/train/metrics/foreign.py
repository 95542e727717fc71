"""Metrics of torchmetrics itself, used as they are."""

from __future__ import annotations

import sys
from typing import Any

from opscope.train.metrics.base import Metric, expect_inputs, tensor


class FromTorchmetrics(Metric):
    """A metric of torchmetrics with the methods of ours."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def clear(self) -> None:
        """Forget all batches."""
        self._metric.reset()

    def update(self, *inputs: Any) -> None:
        """Take in output and label."""
        expect_inputs(self, inputs, 2, "output and label")
        found = tensor(inputs[0])
        self._metric.to(found.device)
        self._metric.update(found, tensor(inputs[1]).to(found.device))

    def eval(self) -> Any:
        """A number, or an array where the result has several."""
        result = self._metric.compute()
        if not hasattr(result, "numel"):
            return result
        return result.item() if result.numel() == 1 else result.cpu().numpy()


def is_torchmetrics(metric: object) -> bool:
    """Tell whether this is a metric of torchmetrics, which is not imported for that."""
    package = sys.modules.get("torchmetrics")
    return package is not None and isinstance(metric, package.Metric)
