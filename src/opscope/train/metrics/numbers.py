"""Metrics of numbers: loss, absolute and squared errors, similarity, perplexity, overlap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.train.metrics.base import Metric, NoSamplesError, expect_inputs, tensor
from opscope.train.needs import need


class Loss(Metric):
    """The mean of the losses of all batches."""

    _indexes = (0,)

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._count = 0.0, 0

    def update(self, *inputs: Any) -> None:
        """Take in the loss of a batch."""
        expect_inputs(self, inputs, 1, "the loss")
        self._sum += float(tensor(inputs[0]).double().mean())
        self._count += 1

    def eval(self) -> float:
        """The mean."""
        if not self._count:
            raise NoSamplesError(self)
        return self._sum / self._count


class _Mean(Metric):
    """A mean over all elements, kept by torchmetrics."""

    _name = ""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._metric: Any = None

    def update(self, *inputs: Any) -> None:
        """Take in a batch of numbers and what they should be."""
        expect_inputs(self, inputs, 2, "output and label")
        found, right = tensor(inputs[0]).double(), tensor(inputs[1]).double()
        right = right.to(found.device)
        if found.shape != right.shape:
            shapes = f"{list(found.shape)} and {list(right.shape)}"
            raise ValueError(f"output and label must have one shape, not {shapes}")
        if self._metric is None:
            made = getattr(need("torchmetrics.regression", type(self).__name__), self._name)()
            self._metric = made.set_dtype(torch.float64).to(found.device)
        self._metric.update(found, right)

    def eval(self) -> float:
        """The mean."""
        if self._metric is None:
            raise NoSamplesError(self)
        return float(self._metric.compute())


class MAE(_Mean):
    """The mean of absolute errors."""

    _name = "MeanAbsoluteError"


class MSE(_Mean):
    """The mean of squared errors."""

    _name = "MeanSquaredError"


class CosineSimilarity(Metric):
    """The similarity of the rows of a matrix, each with each."""

    def __init__(
        self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True
    ) -> None:
        if similarity not in ("cosine", "dot"):
            raise ValueError(f'similarity = {similarity!r}: must be "cosine" or "dot"')
        if reduction not in ("none", "sum", "mean"):
            raise ValueError(f'reduction = {reduction!r}: must be "none", "sum" or "mean"')
        self._kind = "cosine_similarity" if similarity == "cosine" else "linear_similarity"
        self._reduction = reduction
        self._zero_diagonal = zero_diagonal
        self._indexes = (1,)
        self.clear()

    def clear(self) -> None:
        """Forget the matrix."""
        self._matrix: NDArray[Any] | None = None

    def update(self, *inputs: Any) -> None:
        """Take a matrix in place of the one before."""
        expect_inputs(self, inputs[:1], 1, "a matrix")
        functional = need("torchmetrics.functional", "CosineSimilarity")
        compare = getattr(functional, f"pairwise_{self._kind}")
        found = compare(
            tensor(inputs[0]).double(),
            reduction=None if self._reduction == "none" else self._reduction,
            zero_diagonal=self._zero_diagonal,
        )
        self._matrix = found.cpu().numpy()

    def eval(self) -> NDArray[Any]:
        """The matrix of similarities, or its sums or means."""
        if self._matrix is None:
            raise NoSamplesError(self)
        return self._matrix


class Perplexity(Metric):
    """The number of tokens a model hesitates between, from the probabilities of all tokens.

    `ignore_label` is a token that does not count. `from_logits` takes scores in place of
    probabilities.
    """

    def __init__(self, ignore_label: int | None = None, from_logits: bool = False) -> None:
        self._ignored = ignore_label
        self._from_logits = from_logits
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._count = 0.0, 0

    def update(self, *inputs: Any) -> None:
        """Take in probabilities with the tokens in the last dimension, and the right tokens."""
        expect_inputs(self, inputs, 2, "probabilities and tokens")
        scores = tensor(inputs[0]).double()
        scores = scores.reshape(-1, scores.shape[-1])
        tokens = tensor(inputs[1]).to(scores.device).reshape(-1).long()
        if len(tokens) != len(scores):
            raise ValueError(f"{len(scores)} rows of probabilities, but {len(tokens)} tokens")
        if self._ignored is not None:
            kept = tokens != self._ignored
            scores, tokens = scores[kept], tokens[kept]
        if self._from_logits:
            chosen = scores.log_softmax(-1).gather(1, tokens[:, None])
        else:
            if scores.numel() and (bool((scores < 0).any()) or bool((scores > 1).any())):
                raise ValueError(
                    "Perplexity takes probabilities from 0 to 1; for scores give from_logits=True"
                )
            chosen = scores.gather(1, tokens[:, None]).clamp_min(1e-10).log()
        self._sum -= float(chosen.sum())
        self._count += len(tokens)

    def eval(self) -> float:
        """The perplexity."""
        if not self._count:
            raise NoSamplesError(self)
        return math.exp(self._sum / self._count)


class Dice(Metric):
    """The overlap of two masks, from 0 to 1; the mean over batches."""

    def __init__(self, smooth: float = 1e-5) -> None:
        if smooth <= 0:
            raise ValueError(f"smooth = {smooth}: must be above 0")
        self._smooth = smooth
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._count = 0.0, 0

    def update(self, *inputs: Any) -> None:
        """Take in a mask and what it should be."""
        expect_inputs(self, inputs, 2, "output and label")
        found, right = (tensor(value).double().cpu().flatten() for value in inputs)
        if found.shape != right.shape:
            raise ValueError(f"{found.numel()} elements of output, {right.numel()} of label")
        union = float(found @ found + right @ right)
        self._sum += 2 * float(found @ right) / (union + self._smooth)
        self._count += 1

    def eval(self) -> float:
        """The mean overlap."""
        if not self._count:
            raise NoSamplesError(self)
        return self._sum / self._count


def auc(x: Any, y: Any, reorder: bool = False) -> float:
    """The area under a curve given by its points; `reorder` sorts them by x first."""
    across, up = (tensor(value).double().cpu().numpy() for value in (x, y))
    if across.shape != up.shape or across.ndim != 1 or len(across) < 2:
        raise ValueError("a curve is two rows of at least two numbers each, of one length")
    if reorder:
        order = np.argsort(across, kind="stable")
        across, up = across[order], up[order]
    steps = np.diff(across)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ValueError("x must rise or fall all the way; reorder=True sorts it")
    return float(abs(((up[1:] + up[:-1]) / 2 * steps).sum()))
