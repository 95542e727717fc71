"""Distances between the surfaces of masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opscope.train.metrics.base import Metric, NoSamplesError, expect_inputs, tensor
from opscope.train.needs import need

_DISTANCES = ("euclidean", "chessboard", "taxicab")


class _Surfaces(Metric):
    """Keeps the last pair of masks; `update` takes output, label and the class they are about."""

    def __init__(self, distance_metric: str, crop: bool = True) -> None:
        if distance_metric not in _DISTANCES:
            shown = ", ".join(_DISTANCES)
            raise ValueError(f"distance_metric = {distance_metric!r}: must be one of {shown}")
        self._distance = distance_metric
        self._crop = crop
        self.clear()

    def clear(self) -> None:
        """Forget the masks."""
        self._masks: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(self, *inputs: Any) -> None:
        """Take two masks of classes, and which class is meant; without one, what is not 0."""
        expect_inputs(self, inputs[:2], 2, "output and label, and a class")
        found, right = tensor(inputs[0]).cpu(), tensor(inputs[1]).cpu()
        if found.shape != right.shape or found.dim() not in (2, 3):
            raise ValueError("output and label must be two masks of one shape, flat or solid")
        if len(inputs) > 2:
            found, right = found == inputs[2], right == inputs[2]
        self._masks = found.bool(), right.bool()

    def _between(self, swapped: bool = False) -> torch.Tensor:
        """Return how far the points of one edge are from the other edge."""
        if self._masks is None:
            raise NoSamplesError(self)
        tools = need("torchmetrics.functional.segmentation.utils", type(self).__name__)
        found, right = self._masks
        if not bool(found.any()) or not bool(right.any()):
            return torch.full((1,), torch.inf, dtype=torch.float64)
        edges = tools.mask_edges(found, right, crop=self._crop)[:2]
        one, other = (edge.bool() for edge in (reversed(edges) if swapped else edges))
        far: torch.Tensor = tools.surface_distance(one, other, distance_metric=self._distance)
        return far.double()


class HausdorffDistance(_Surfaces):
    """The largest distance from the surface of one mask to the other, or a percentile of it.

    `directed` looks only from the output to the label.
    """

    def __init__(
        self,
        distance_metric: str = "euclidean",
        percentile: float | None = None,
        directed: bool = False,
        crop: bool = True,
    ) -> None:
        if percentile is not None and not 0 <= percentile <= 100:
            raise ValueError(f"percentile = {percentile}: must be from 0 to 100")
        self._percentile = percentile
        self._directed = directed
        super().__init__(distance_metric, crop)

    def eval(self) -> float:
        """The distance."""
        ways = [False] if self._directed else [False, True]
        return max(self._largest(self._between(swapped)) for swapped in ways)

    def _largest(self, distances: torch.Tensor) -> float:
        if self._percentile is None:
            return float(distances.max())
        return float(np.percentile(distances.numpy(), self._percentile))


class MeanSurfaceDistance(_Surfaces):
    """The mean distance from the surface of the output to that of the label, or of both ways."""

    def __init__(self, symmetric: bool = False, distance_metric: str = "euclidean") -> None:
        self._symmetric = symmetric
        super().__init__(distance_metric)

    def eval(self) -> float:
        """The distance."""
        return float(self._distances().mean())

    def _distances(self) -> torch.Tensor:
        there = self._between()
        return torch.cat([there, self._between(swapped=True)]) if self._symmetric else there


class RootMeanSquareDistance(MeanSurfaceDistance):
    """The same, of squared distances, and the root of that."""

    def eval(self) -> float:
        """The distance."""
        return float(self._distances().square().mean().sqrt())
