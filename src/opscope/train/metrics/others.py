"""BLEU of translations, and which parts of a picture an answer depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.train.metrics.base import Metric, NoSamplesError, expect_inputs, tensor
from opscope.train.needs import need
from opscope.train.states import evaluating


class BleuScore(Metric):
    """The share of sequences of up to `n_gram` words that translations share with references."""

    def __init__(self, n_gram: int = 4, smooth: bool = False) -> None:
        if not isinstance(n_gram, int) or n_gram < 1:
            raise ValueError(f"n_gram = {n_gram!r}: must be a whole number of at least 1")
        self._n_gram, self._smooth = n_gram, smooth
        self.clear()

    def clear(self) -> None:
        """Forget all sentences."""
        self._metric: Any = None

    def update(self, *inputs: Any) -> None:
        """Take in sentences, each a list of words, and for each a list of references."""
        expect_inputs(self, inputs, 2, "sentences and references")
        if self._metric is None:
            text = need("torchmetrics.text", "BleuScore")
            self._metric = text.BLEUScore(n_gram=self._n_gram, smooth=self._smooth)
        sentences, references = inputs
        if len(sentences) != len(references):
            raise ValueError(f"{len(sentences)} sentences, but references of {len(references)}")
        self._metric.update(
            [_joined(sentence) for sentence in sentences],
            [[_joined(reference) for reference in several] for several in references],
        )

    def eval(self) -> float:
        """The score from 0 to 1."""
        if self._metric is None:
            raise NoSamplesError(self)
        return float(self._metric.compute())


def _joined(words: str | Sequence[str]) -> str:
    return words if isinstance(words, str) else " ".join(words)


class OcclusionSensitivity(Metric):
    """The fall of a class's score when a part of a picture is covered.

    `update` takes a model, a picture [1, C, H, W] and the class. Squares with `margin` around each
    pixel are covered with `pad_val`, `n_batch` of them at a time; `b_box` says for each dimension
    after the first from where to where.
    """

    def __init__(
        self,
        pad_val: float = 0.0,
        margin: int | Sequence[int] = 2,
        n_batch: int = 128,
        b_box: Sequence[int] | None = None,
    ) -> None:
        self._pad = pad_val
        self._margin = margin
        self._size = n_batch
        self._box = b_box
        self.clear()

    def clear(self) -> None:
        """Forget the picture."""
        self._result: NDArray[Any] | None = None

    def update(self, *inputs: Any) -> None:
        """Cover the picture place by place."""
        expect_inputs(self, inputs, 3, "a model, a picture and a class")
        model, picture, label = inputs[0], tensor(inputs[1]), int(tensor(inputs[2]).reshape(-1)[0])
        if picture.shape[0] != 1 or picture.dim() < 3:
            raise ValueError("the picture must have the shape [1, C, …], with one picture")
        spans = self._spans(picture.shape[1:])
        with evaluating(model):
            whole = float(model(picture)[0, label])
            scores = self._scores(model, picture, label, spans)
        shape = tuple(high - low + 1 for low, high in spans)
        self._result = whole - scores.double().cpu().numpy().reshape(shape)

    def _spans(self, shape: Sequence[int]) -> list[tuple[int, int]]:
        box = self._box if self._box is not None else [x for n in shape for x in (0, n - 1)]
        pairs = list(zip(box[::2], box[1::2], strict=True))
        if len(pairs) != len(shape):
            raise ValueError(f"b_box needs two numbers for each of {len(shape)} dimensions")
        return [
            (max(0, low), min(high, n - 1)) for (low, high), n in zip(pairs, shape, strict=True)
        ]

    def _scores(self, model: Any, picture: Any, label: int, spans: Any) -> torch.Tensor:
        """The score of the class with each place covered in turn."""
        places = list(np.ndindex(*(high - low + 1 for low, high in spans)))
        margins = (
            [self._margin] * len(spans) if isinstance(self._margin, int) else list(self._margin)
        )
        parts = []
        for start in range(0, len(places), self._size):
            some = places[start : start + self._size]
            covered = picture.repeat(len(some), *[1] * (picture.dim() - 1))
            for row, place in zip(covered, some, strict=True):
                area = tuple(
                    slice(max(0, low + at - margin), low + at + margin + 1)
                    for at, (low, _), margin in zip(place, spans, margins, strict=True)
                )
                row[area] = self._pad
            parts.append(model(covered)[:, label])
        return torch.cat(parts)

    def eval(self) -> NDArray[Any]:
        """By place: how much of the score is lost there."""
        if self._result is None:
            raise NoSamplesError(self)
        return self._result
