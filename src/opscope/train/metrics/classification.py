"""Accuracy, precision, recall and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.train.metrics.base import EvaluationBase, Metric, NoSamplesError, expect_inputs
from opscope.train.metrics.classes import (
    FN,
    FP,
    SUPPORT,
    TP,
    added,
    class_counts,
    labels_of,
)

FloatArray = NDArray[np.float64]
_INPUTS = "output and label"


class _ShareOfRight(Metric):
    """The share of samples that are right."""

    def clear(self) -> None:
        """Forget all batches."""
        self._right = self._total = 0

    def eval(self) -> float:
        """The share."""
        if not self._total:
            raise NoSamplesError(self)
        return self._right / self._total

    def _add(self, counts: torch.Tensor) -> None:
        """Take in the counts of classes."""
        self._right += int(counts[:, TP].sum())
        self._total += int(counts[:, SUPPORT].sum())


class Accuracy(_ShareOfRight, EvaluationBase):
    """The share of samples that are right; of several labels, all of them must be.

    >>> metric = Accuracy()
    >>> metric.update([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1])
    >>> round(metric.eval(), 4)
    0.6667
    """

    def update(self, *inputs: Any) -> None:
        expect_inputs(self, inputs, 2, _INPUTS)
        if self._type == "multilabel":
            found, right = labels_of(*inputs)
            self._right += int((found == right).all(dim=1).sum())
            self._total += len(right)
            return
        self._add(class_counts(*inputs))


class TopKCategoricalAccuracy(_ShareOfRight):
    """The share of samples whose class is among the k with the highest scores."""

    def __init__(self, k: int = 5) -> None:
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k = {k!r}: must be a whole number of at least 1")
        self.k = k
        self.clear()

    def update(self, *inputs: Any) -> None:
        """Take in scores and labels."""
        expect_inputs(self, inputs, 2, _INPUTS)
        self._add(class_counts(inputs[0], inputs[1], self.k))


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose class has the highest score."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose class is among the five with the highest scores."""

    def __init__(self) -> None:
        super().__init__(5)


class _PerClass(EvaluationBase):
    """A number per class, or per sample where samples have several labels."""

    def clear(self) -> None:
        self._counts: torch.Tensor | None = None
        self._samples: list[torch.Tensor] = []

    def update(self, *inputs: Any) -> None:
        expect_inputs(self, inputs, 2, _INPUTS)
        if self._type == "multilabel":
            self._samples.append(_per_sample(*labels_of(*inputs)))
        else:
            self._counts = added(self._counts, class_counts(*inputs))

    def eval(self, average: bool = False) -> FloatArray | float:
        """A number per class or sample, or their mean."""
        counts = torch.cat(self._samples) if self._samples else self._counts
        if counts is None or not len(counts):
            raise NoSamplesError(self)
        result = self._result(*(counts[:, column].double().numpy() for column in (TP, FP, FN)))
        return float(result.mean()) if average else result

    def _result(self, tp: FloatArray, fp: FloatArray, fn: FloatArray) -> FloatArray:
        raise NotImplementedError


class Precision(_PerClass):
    """Per class: the share that is right of what was put out as this class."""

    def _result(self, tp: FloatArray, fp: FloatArray, fn: FloatArray) -> FloatArray:
        return _share(tp, tp + fp)


class Recall(_PerClass):
    """Per class: the share that was found of what is this class."""

    def _result(self, tp: FloatArray, fp: FloatArray, fn: FloatArray) -> FloatArray:
        return _share(tp, tp + fn)


class Fbeta(_PerClass):
    """Per class: the mean of precision and recall, where recall counts `beta` times as much."""

    def __init__(self, beta: float) -> None:
        if beta <= 0:
            raise ValueError(f"beta = {beta}: must be above 0")
        self._beta = beta
        super().__init__("classification")

    def _result(self, tp: FloatArray, fp: FloatArray, fn: FloatArray) -> FloatArray:
        square = self._beta**2
        return _share((1 + square) * tp, (1 + square) * tp + square * fn + fp)


class F1(Fbeta):
    """Per class: the harmonic mean of precision and recall."""

    def __init__(self) -> None:
        super().__init__(1.0)


def _per_sample(found: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """True and false positives and negatives of each sample, in the columns of class counts."""
    tp, fp = (found * right).sum(1), (found * (1 - right)).sum(1)
    tn, fn = ((1 - found) * (1 - right)).sum(1), ((1 - found) * right).sum(1)
    return torch.stack([tp, fp, tn, fn, right.sum(1)], dim=1).cpu()


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """0 where there is nothing to take a share of."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
