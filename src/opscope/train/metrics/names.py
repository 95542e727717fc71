"""Metrics by name, and what `metrics` of a Model may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opscope.settings.checks import did_you_mean
from opscope.train.metrics.base import Metric
from opscope.train.metrics.classification import (
    F1,
    Accuracy,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from opscope.train.metrics.confusion import ConfusionMatrix, ConfusionMatrixMetric
from opscope.train.metrics.curves import AUC, ROC
from opscope.train.metrics.foreign import FromTorchmetrics, is_torchmetrics
from opscope.train.metrics.numbers import MAE, MSE, CosineSimilarity, Dice, Loss, Perplexity
from opscope.train.metrics.others import BleuScore, OcclusionSensitivity
from opscope.train.metrics.surfaces import (
    HausdorffDistance,
    MeanSurfaceDistance,
    RootMeanSquareDistance,
)

_METRICS: dict[str, type[Metric]] = {
    "F1": F1,
    "acc": Accuracy,
    "accuracy": Accuracy,
    "auc": AUC,
    "bleu_score": BleuScore,
    "confusion_matrix": ConfusionMatrix,
    "confusion_matrix_metric": ConfusionMatrixMetric,
    "cosine_similarity": CosineSimilarity,
    "dice": Dice,
    "hausdorff_distance": HausdorffDistance,
    "loss": Loss,
    "mae": MAE,
    "mean_surface_distance": MeanSurfaceDistance,
    "mse": MSE,
    "occlusion_sensitivity": OcclusionSensitivity,
    "perplexity": Perplexity,
    "precision": Precision,
    "recall": Recall,
    "roc": ROC,
    "root_mean_square_distance": RootMeanSquareDistance,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "topk": TopKCategoricalAccuracy,
}


def names() -> list[str]:
    """The names of all metrics."""
    return sorted(_METRICS)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Metric:
    """A new metric by its name.

    >>> get_metric_fn("topk", k=3).k
    3
    """
    if name not in _METRICS:
        hint = did_you_mean(str(name), _METRICS)
        raise KeyError(f"no metric is called {name!r}{hint}; there are {', '.join(names())}")
    return _METRICS[name](*args, **kwargs)


def metrics_of(metrics: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Metric]:
    """The metrics of a model, by the names its results have."""
    if metrics is None:
        return {}
    if isinstance(metrics, str):
        raise TypeError(f'metrics must be a dict, a list or a set: {{"{metrics}"}}')
    if not isinstance(metrics, Mapping):
        ordered = sorted(metrics) if isinstance(metrics, set | frozenset) else metrics
        return {name: get_metric_fn(name) for name in ordered}
    found: dict[str, Metric] = {}
    for name, given in metrics.items():
        metric = FromTorchmetrics(given) if is_torchmetrics(given) else given
        if not isinstance(metric, Metric):
            kind = type(metric).__name__
            hint = "; give an object of it, not the class" if isinstance(metric, type) else ""
            raise TypeError(f'metrics["{name}"] must be a Metric, not {kind}{hint}')
        found[name] = metric
    return found
