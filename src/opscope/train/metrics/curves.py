"""ROC curves and the area under them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.train.metrics.base import Metric, NoSamplesError, expect_inputs, tensor
from opscope.train.metrics.numbers import auc
from opscope.train.needs import need

FloatArray = NDArray[np.float64]
Curve = tuple[FloatArray, FloatArray, FloatArray]


class _Scores(Metric):
    """Keeps the scores and labels of all batches."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._batches: list[tuple[torch.Tensor, torch.Tensor]] = []

    def update(self, *inputs: Any) -> None:
        """Take in scores, of one class or with the classes in dimension 1, and labels."""
        expect_inputs(self, inputs, 2, "scores and labels")
        scores, labels = tensor(inputs[0]).double().cpu(), tensor(inputs[1]).cpu()
        if labels.shape == scores.shape and labels.dim() > 1 and labels.shape[1] > 1:
            labels = labels.argmax(dim=1)
        if scores.dim() > 1 and scores.shape[1] == 1:
            scores = scores.squeeze(1)
        self._batches.append((scores, labels.reshape(-1)))

    def _all(self) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._batches:
            raise NoSamplesError(self)
        scores, labels = zip(*self._batches, strict=True)
        return torch.cat(scores), torch.cat(labels)


class ROC(_Scores):
    """The rates of false and of true positives over all thresholds.

    Of one row of scores, `pos_label` is what counts as positive, 1 unless given. With several
    classes `eval` returns lists with one curve per class.
    """

    def __init__(self, class_num: int | None = None, pos_label: int | None = None) -> None:
        super().__init__()
        self._classes = class_num
        self._positive = 1 if pos_label is None else pos_label

    def eval(self) -> Any:
        """False positive rates, true positive rates and thresholds."""
        scores, labels = self._all()
        if scores.dim() == 1:
            return curve(scores, labels == self._positive)
        number = self._classes or scores.shape[1]
        curves = [curve(scores[:, each], labels == each) for each in range(number)]
        return tuple(list(part) for part in zip(*curves, strict=True))


class AUC(_Scores):
    """The area under the ROC curve; with several classes, the mean over them.

    Of two classes it is that of the second one.
    """

    def eval(self) -> float:
        """The area."""
        scores, labels = self._all()
        if scores.dim() > 1 and scores.shape[1] == 2:
            scores = scores[:, 1]
        if scores.dim() == 1:
            return _area(curve(scores, labels == 1))
        present = [each for each in range(scores.shape[1]) if bool((labels == each).any())]
        return float(np.mean([_area(curve(scores[:, each], labels == each)) for each in present]))


def _area(points: Curve) -> float:
    return auc(points[0], points[1])


def curve(scores: torch.Tensor, positive: torch.Tensor) -> Curve:
    """The curve of one class; torchmetrics wants scores of 0 to 1 and is given their ranks."""
    functional = need("torchmetrics.functional.classification", "ROC")
    known, ranks = torch.unique(scores, return_inverse=True)
    size = len(known)
    within = (ranks.double() + 1) / (size + 1)
    false, true, thresholds = functional.binary_roc(within, positive.long())
    at = (thresholds[1:].double() * (size + 1)).round().long() - 1
    shown = torch.cat([known[-1:] + 1, known[at]])
    return false.double().numpy(), true.double().numpy(), shown.numpy()
