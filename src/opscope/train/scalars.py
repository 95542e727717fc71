"""Scalars for other tools: TensorBoard, W&B and MLflow, where they are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from opscope.train.needs import need


class ScalarTarget(Protocol):
    """A tool that takes numbers by name and step."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers of a step."""

    def close(self) -> None:
        """Take no more."""


class TensorBoardScalars:
    """Event files in a directory."""

    def __init__(self, directory: str = "./runs") -> None:
        made = need("torch.utils.tensorboard", "writing event files")
        self._writer = made.SummaryWriter(directory)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class WandbScalars:
    """A run of Weights & Biases: the one that is open, or a new one."""

    def __init__(self, **options: Any) -> None:
        wandb = need("wandb", "writing to Weights & Biases")
        self._owned = wandb.run is None
        self._run = wandb.init(**options) if self._owned else wandb.run

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers of a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Finish the run, if it was made here."""
        if self._owned:
            self._run.finish()


class MlflowScalars:
    """A run of MLflow: the one that is open, or a new one."""

    def __init__(self, **options: Any) -> None:
        self._mlflow = need("mlflow", "writing to MLflow")
        self._owned = self._mlflow.active_run() is None
        if self._owned:
            self._mlflow.start_run(**options)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers of a step."""
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        """Finish the run, if it was made here."""
        if self._owned:
            self._mlflow.end_run()


_TARGETS: dict[str, Any] = {
    "tensorboard": TensorBoardScalars,
    "wandb": WandbScalars,
    "mlflow": MlflowScalars,
}


def open_target(to: str | ScalarTarget, **options: Any) -> ScalarTarget:
    """A tool by its name: tensorboard, wandb or mlflow."""
    if not isinstance(to, str):
        return to
    if to not in _TARGETS:
        raise ValueError(f"to = {to!r}: must be one of {', '.join(_TARGETS)}")
    made: ScalarTarget = _TARGETS[to](**options)
    return made


def export_run(run: str, to: str | Sequence[str], rank: int = 0, **options: Any) -> int:
    """Write the losses of a recorded run, step by step, to other tools; how many there were.

    `options` are those of the tool: `directory` for TensorBoard, `project` … for W&B,
    `run_name` … for MLflow.
    """
    import opscope

    recorded = opscope.open(run).recording.rank(rank)
    targets = [open_target(name, **options) for name in ([to] if isinstance(to, str) else to)]
    count = 0
    for record in recorded.steps:
        losses = [loss.value for loss in record.losses]
        names = ["loss"] if len(losses) == 1 else [f"loss/{n}" for n in range(len(losses))]
        for target in targets:
            target.write(dict(zip(names, losses, strict=True)), record.step)
        count += bool(losses)
    for target in targets:
        target.close()
    return count
