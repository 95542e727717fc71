"""The training kit: a `Model` with callbacks and metrics, checkpoints, and ways into other loops.

Names are imported when they are first used. It may import everything of opscope but commands.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscope.train.callback import Callback
    from opscope.train.callbacks.best_accuracy import SaveCallback
    from opscope.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
    from opscope.train.callbacks.early_stopping import EarlyStopping
    from opscope.train.callbacks.history import History, LambdaCallback
    from opscope.train.callbacks.learning_rate import LearningRateScheduler, ReduceLROnPlateau
    from opscope.train.callbacks.loss_monitor import LossMonitor, LossNotFiniteError
    from opscope.train.callbacks.request_exit import OnRequestExit
    from opscope.train.callbacks.stop_at_time import StopAtTime
    from opscope.train.callbacks.summary import ExportScalars, SummaryCollector
    from opscope.train.callbacks.time_monitor import TimeMonitor
    from opscope.train.callbacks.watch import Watch
    from opscope.train.checkpoints import load_checkpoint, load_param_into_net, save_checkpoint
    from opscope.train.metrics.base import EvaluationBase, Metric
    from opscope.train.metrics.classification import (
        F1,
        Accuracy,
        Fbeta,
        Precision,
        Recall,
        Top1CategoricalAccuracy,
        Top5CategoricalAccuracy,
        TopKCategoricalAccuracy,
    )
    from opscope.train.metrics.confusion import ConfusionMatrix, ConfusionMatrixMetric
    from opscope.train.metrics.curves import AUC, ROC
    from opscope.train.metrics.names import get_metric_fn, names
    from opscope.train.metrics.numbers import (
        MAE,
        MSE,
        CosineSimilarity,
        Dice,
        Loss,
        Perplexity,
        auc,
    )
    from opscope.train.metrics.others import BleuScore, OcclusionSensitivity
    from opscope.train.metrics.surfaces import (
        HausdorffDistance,
        MeanSurfaceDistance,
        RootMeanSquareDistance,
    )
    from opscope.train.model import Model
    from opscope.train.run_context import RunContext
    from opscope.train.scalars import export_run

_HOMES = {
    "callback": ("Callback",),
    "callbacks.best_accuracy": ("SaveCallback",),
    "callbacks.checkpoint": ("CheckpointConfig", "ModelCheckpoint"),
    "callbacks.early_stopping": ("EarlyStopping",),
    "callbacks.history": ("History", "LambdaCallback"),
    "callbacks.learning_rate": ("LearningRateScheduler", "ReduceLROnPlateau"),
    "callbacks.loss_monitor": ("LossMonitor", "LossNotFiniteError"),
    "callbacks.request_exit": ("OnRequestExit",),
    "callbacks.stop_at_time": ("StopAtTime",),
    "callbacks.summary": ("ExportScalars", "SummaryCollector"),
    "callbacks.time_monitor": ("TimeMonitor",),
    "callbacks.watch": ("Watch",),
    "checkpoints": ("load_checkpoint", "load_param_into_net", "save_checkpoint"),
    "metrics.base": ("EvaluationBase", "Metric"),
    "metrics.classification": (
        *("Accuracy", "F1", "Fbeta", "Precision", "Recall"),
        *("Top1CategoricalAccuracy", "Top5CategoricalAccuracy", "TopKCategoricalAccuracy"),
    ),
    "metrics.confusion": ("ConfusionMatrix", "ConfusionMatrixMetric"),
    "metrics.curves": ("AUC", "ROC"),
    "metrics.numbers": ("CosineSimilarity", "Dice", "Loss", "MAE", "MSE", "Perplexity", "auc"),
    "metrics.names": ("get_metric_fn", "names"),
    "metrics.others": ("BleuScore", "OcclusionSensitivity"),
    "metrics.surfaces": ("HausdorffDistance", "MeanSurfaceDistance", "RootMeanSquareDistance"),
    "model": ("Model",),
    "run_context": ("RunContext",),
    "scalars": ("export_run",),
}
_MODULES = {name: module for module, several in _HOMES.items() for name in several}

__all__ = [
    "AUC",
    "F1",
    "MAE",
    "MSE",
    "ROC",
    "Accuracy",
    "BleuScore",
    "Callback",
    "CheckpointConfig",
    "ConfusionMatrix",
    "ConfusionMatrixMetric",
    "CosineSimilarity",
    "Dice",
    "EarlyStopping",
    "EvaluationBase",
    "ExportScalars",
    "Fbeta",
    "HausdorffDistance",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "Loss",
    "LossMonitor",
    "LossNotFiniteError",
    "MeanSurfaceDistance",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "OcclusionSensitivity",
    "OnRequestExit",
    "Perplexity",
    "Precision",
    "Recall",
    "ReduceLROnPlateau",
    "RootMeanSquareDistance",
    "RunContext",
    "SaveCallback",
    "StopAtTime",
    "SummaryCollector",
    "TimeMonitor",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "Watch",
    "auc",
    "export_run",
    "get_metric_fn",
    "load_checkpoint",
    "load_param_into_net",
    "names",
    "save_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
