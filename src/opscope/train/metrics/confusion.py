"""Counts of which classes are taken for which, and the many rates that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.train.metrics.base import Metric, NoSamplesError, expect_inputs, tensor
from opscope.train.metrics.classes import class_number, pair
from opscope.train.needs import need

FloatArray = NDArray[np.float64]
_NORMS = {"no_norm": None, "target": 1, "prediction": 0, "all": (0, 1)}


class ConfusionMatrix(Metric):
    """Row by right class, column by class put out: how often. Classes are counted if not given.

    `normalize` makes shares of the counts: of each right class ("target"), of each class put out
    ("prediction"), or of "all".
    """

    def __init__(
        self, num_classes: int | None = None, normalize: str = "no_norm", threshold: float = 0.5
    ) -> None:
        if normalize not in _NORMS:
            raise ValueError(f"normalize = {normalize!r}: must be one of {', '.join(_NORMS)}")
        self._classes = num_classes
        self._normalize = normalize
        self._threshold = threshold
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._matrix: torch.Tensor | None = None

    def update(self, *inputs: Any) -> None:
        """Take in scores or classes, and the right classes."""
        expect_inputs(self, inputs, 2, "output and label")
        output = tensor(inputs[0])
        if output.is_floating_point() and output.dim() == tensor(inputs[1]).dim() == 1:
            output = (output > self._threshold).long()
        scores, target = pair(output, inputs[1])
        classes = self._classes or class_number(scores, target)
        functional = need("torchmetrics.functional.classification", "ConfusionMatrix")
        found = functional.multiclass_confusion_matrix(scores, target, num_classes=classes).cpu()
        if self._matrix is None:
            self._matrix = found
            return
        size = max(len(self._matrix), len(found))
        total = torch.zeros(size, size, dtype=torch.int64)
        for part in (self._matrix, found):
            total[: len(part), : len(part)] += part
        self._matrix = total

    def eval(self) -> FloatArray:
        """The matrix."""
        if self._matrix is None:
            raise NoSamplesError(self)
        counts: FloatArray = self._matrix.double().numpy()
        axis: Any = _NORMS[self._normalize]
        if self._normalize == "no_norm":
            return counts
        whole = counts.sum(axis=axis, keepdims=True)
        shares: FloatArray = np.divide(counts, whole, out=np.zeros_like(counts), where=whole != 0)
        return shares


def _rate(part: Any, whole: Any) -> Any:
    return np.where(whole != 0, part / np.where(whole == 0, 1, whole), 0.0)


def _matthews(tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
    whole = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return _rate(tp * tn - fp * fn, whole)


def _prevalence_threshold(tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
    sensitivity, specificity = _rate(tp, tp + fn), _rate(tn, tn + fp)
    gain = np.sqrt(sensitivity * (1 - specificity))
    return _rate(gain + specificity - 1, sensitivity + specificity - 1)


RATES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "sensitivity": lambda tp, fp, tn, fn: _rate(tp, tp + fn),
    "specificity": lambda tp, fp, tn, fn: _rate(tn, tn + fp),
    "precision": lambda tp, fp, tn, fn: _rate(tp, tp + fp),
    "negative predictive value": lambda tp, fp, tn, fn: _rate(tn, tn + fn),
    "miss rate": lambda tp, fp, tn, fn: _rate(fn, tp + fn),
    "fall out": lambda tp, fp, tn, fn: _rate(fp, tn + fp),
    "false discovery rate": lambda tp, fp, tn, fn: _rate(fp, tp + fp),
    "false omission rate": lambda tp, fp, tn, fn: _rate(fn, tn + fn),
    "prevalence threshold": _prevalence_threshold,
    "threat score": lambda tp, fp, tn, fn: _rate(tp, tp + fn + fp),
    "accuracy": lambda tp, fp, tn, fn: _rate(tp + tn, tp + fp + tn + fn),
    "balanced accuracy": lambda tp, fp, tn, fn: (_rate(tp, tp + fn) + _rate(tn, tn + fp)) / 2,
    "f1 score": lambda tp, fp, tn, fn: _rate(2 * tp, 2 * tp + fn + fp),
    "matthews correlation coefficient": _matthews,
    "fowlkes mallows index": lambda tp, fp, tn, fn: np.sqrt(
        _rate(tp, tp + fp) * _rate(tp, tp + fn)
    ),
    "informedness": lambda tp, fp, tn, fn: _rate(tp, tp + fn) + _rate(tn, tn + fp) - 1,
    "markedness": lambda tp, fp, tn, fn: _rate(tp, tp + fp) + _rate(tn, tn + fn) - 1,
}
"""Rates by name, of true and false positives and negatives."""
_SHORT = {
    "recall": "sensitivity",
    "tpr": "sensitivity",
    "tnr": "specificity",
    "ppv": "precision",
    "npv": "negative predictive value",
    "fnr": "miss rate",
    "fpr": "fall out",
    "fdr": "false discovery rate",
    "for": "false omission rate",
    "ts": "threat score",
    "acc": "accuracy",
    "ba": "balanced accuracy",
    "f1": "f1 score",
    "mcc": "matthews correlation coefficient",
    "fm": "fowlkes mallows index",
    "bm": "informedness",
    "mk": "markedness",
    "pt": "prevalence threshold",
}


class ConfusionMatrixMetric(Metric):
    """A rate over samples whose output and label have one channel of 0 and 1 per class.

    `skip_channel` leaves out the first class. `calculation_method` takes the rate of each sample
    and then `decrease`s it, instead of taking one rate of all; `decrease` is a mean or sum over
    samples ("mean_batch"), classes ("mean_channel") or both ("mean"), or "none".
    """

    def __init__(
        self,
        skip_channel: bool = True,
        metric_name: str = "sensitivity",
        calculation_method: bool = False,
        decrease: str = "mean",
    ) -> None:
        name = metric_name.lower().replace("_", " ")
        self._name = _SHORT.get(name, name)
        if self._name not in RATES:
            raise ValueError(f"metric_name = {metric_name!r}: must be one of {', '.join(RATES)}")
        kinds = ("none", "mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel")
        if decrease not in kinds:
            raise ValueError(f"decrease = {decrease!r}: must be one of {', '.join(kinds)}")
        self._skip = skip_channel
        self._each = calculation_method
        self._decrease = decrease
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._counts: list[FloatArray] = []

    def update(self, *inputs: Any) -> None:
        """Take in a batch of shape [samples, classes, …]."""
        expect_inputs(self, inputs, 2, "output and label")
        found, right = (tensor(value).cpu() for value in inputs)
        if found.shape != right.shape or found.dim() < 2:
            raise ValueError("output and label must have one shape [samples, classes, …]")
        found, right = found != 0, right != 0
        if self._skip and found.shape[1] > 1:
            found, right = found[:, 1:], right[:, 1:]
        shape = *found.shape[:2], -1
        found, right = found.reshape(shape), right.reshape(shape)
        parts = (found & right, found & ~right, ~found & ~right, ~found & right)
        self._counts.append(torch.stack([part.sum(-1) for part in parts], -1).double().numpy())

    def eval(self) -> Any:
        """The rate: a number, or an array where `decrease` leaves one."""
        if not self._counts:
            raise NoSamplesError(self)
        counts = np.concatenate(self._counts)
        if self._each:
            return _reduced(self._of(counts), self._decrease)
        return self._of(_reduced(counts, self._decrease.replace("mean", "sum")))

    def _of(self, counts: FloatArray) -> Any:
        found = RATES[self._name](*(counts[..., column] for column in range(4)))
        return float(found) if np.ndim(found) == 0 else found


def _reduced(values: Any, decrease: str) -> Any:
    """Over samples (axis 0), classes (axis 1) or both."""
    if decrease == "none":
        return values
    kind, _, axis = decrease.partition("_")
    axes: Any = {"": (0, 1), "batch": 0, "channel": 1}[axis]
    found = np.mean(values, axis=axes) if kind == "mean" else np.sum(values, axis=axes)
    return float(found) if np.ndim(found) == 0 else found
