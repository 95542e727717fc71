"""`SummaryCollector` and `ExportScalars`: training as other tools show it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opscope.capture.guards import quiet
from opscope.messages import say_once
from opscope.train.batches import moved, split
from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import as_number
from opscope.train.checkpoints import unwrapped
from opscope.train.needs import need
from opscope.train.run_context import Arguments, RunContext
from opscope.train.scalars import ScalarTarget, open_target
from opscope.train.states import evaluating, same_random_numbers

_DEFAULTS: dict[str, Any] = {
    "collect_metric": True,
    "collect_graph": True,
    "histogram_regular": ".*",
}


class SummaryCollector(Callback):
    """Writes event files for TensorBoard: loss, learning rate, metrics, histograms and the graph.

    Every `collect_freq`-th step counts. `collect_specified_data` may hold `collect_metric`,
    `collect_graph` (True or False) and `histogram_regular`, an expression on names of parameters
    or None; `keep_default_action=False` collects only what is in it.
    """

    def __init__(
        self,
        summary_dir: str,
        collect_freq: int = 10,
        collect_specified_data: Mapping[str, Any] | None = None,
        keep_default_action: bool = True,
    ) -> None:
        if collect_freq < 1:
            raise ValueError(f"collect_freq = {collect_freq}: must be at least 1")
        given = dict(collect_specified_data or {})
        for name in given.keys() - _DEFAULTS.keys():
            say_once(f"SummaryCollector: {name} has no effect here")
        defaults = _DEFAULTS if keep_default_action else dict.fromkeys(_DEFAULTS)
        self._collects = {**defaults, **given}
        self._every = collect_freq
        self._directory = summary_dir
        self._tensorboard = need("torch.utils.tensorboard", "SummaryCollector")
        self._writer: Any = None

    def on_train_begin(self, run_context: RunContext) -> None:
        """Open a file."""
        self._writer = self._tensorboard.SummaryWriter(self._directory)
        self._has_graph = False

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Write the graph, once there is a batch to make it with."""
        if self._collects["collect_graph"] and not self._has_graph:
            self._has_graph = True
            self._write_graph(run_context.original_args())

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Write loss, learning rate and histograms."""
        arguments = run_context.original_args()
        step = arguments.cur_step_num
        if step != 1 and step % self._every:
            return
        if self._collects["collect_metric"]:
            for name, value in step_scalars(arguments).items():
                self._writer.add_scalar(name, value, step)
        if self._collects["histogram_regular"]:
            self._write_histograms(arguments.train_network, step)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Write the results of an evaluation."""
        arguments = run_context.original_args()
        if self._collects["collect_metric"]:
            for name, value in result_scalars(arguments).items():
                self._writer.add_scalar(name, value, arguments.cur_step_num)
        self._writer.flush()

    def __exit__(self, *exc: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write_histograms(self, network: Any, step: int) -> None:
        with quiet():  # this is no part of what is trained
            self._add_histograms(network, step)

    def _add_histograms(self, network: Any, step: int) -> None:
        for name, parameter in unwrapped(network).named_parameters():
            if not re.search(self._collects["histogram_regular"], name):
                continue
            tensors = {name: parameter.detach(), f"{name}/gradient": parameter.grad}
            for title, tensor in tensors.items():
                if tensor is not None and tensor.numel() and bool(torch.isfinite(tensor).all()):
                    self._writer.add_histogram(title, tensor.float(), step)

    def _write_graph(self, arguments: Arguments) -> None:
        network = unwrapped(arguments.train_network)
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
        batch = split(arguments.train_dataset_element, arguments.loss_fn is not None)
        if batch.named:
            say_once("SummaryCollector: no graph, because batches are dicts")
            return
        try:
            with quiet(), same_random_numbers(), evaluating(network):
                self._writer.add_graph(network, moved(batch.inputs, device))
        except Exception as error:  # noqa: BLE001 - a model that cannot be traced trains all the same
            first = str(error).strip().splitlines()
            say_once(f"SummaryCollector: no graph of {type(network).__name__}: {first[:1]}")


class ExportScalars(Callback):
    """Writes loss, learning rate and metrics to "tensorboard", "wandb", "mlflow" or several.

    `options` are those of the tool: `directory` for TensorBoard, `project` … for W&B,
    `run_name` … for MLflow. Every `every`-th step counts.
    """

    def __init__(
        self,
        to: str | ScalarTarget | Sequence[str | ScalarTarget],
        *,
        every: int = 1,
        **options: Any,
    ) -> None:
        several = [to] if isinstance(to, str) or not isinstance(to, Sequence) else list(to)
        self._to = several
        self._options = options
        self._every = every
        self._targets: list[ScalarTarget] = []

    def on_train_begin(self, run_context: RunContext) -> None:
        """Open the tools."""
        self._targets = [open_target(to, **self._options) for to in self._to]

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Write loss and learning rate."""
        arguments = run_context.original_args()
        if arguments.cur_step_num % self._every == 0:
            self._write(step_scalars(arguments), arguments.cur_step_num)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Write the results of an evaluation."""
        arguments = run_context.original_args()
        self._write(result_scalars(arguments), arguments.cur_step_num)

    def __exit__(self, *exc: object) -> None:
        targets, self._targets = self._targets, []
        for target in targets:
            target.close()

    def _write(self, values: Mapping[str, float], step: int) -> None:
        for target in self._targets if values else ():
            target.write(values, step)


def step_scalars(arguments: Arguments) -> dict[str, float]:
    """The loss and the learning rates after a step."""
    rates = [float(group["lr"]) for group in arguments.optimizer.param_groups]
    names = (
        ["learning_rate"] if len(rates) == 1 else [f"learning_rate/{n}" for n in range(len(rates))]
    )
    return {"loss": as_number(arguments.net_outputs), **dict(zip(names, rates, strict=True))}


def result_scalars(arguments: Arguments) -> dict[str, float]:
    """The results of an evaluation; those with a number per class under one name each."""
    found: dict[str, float] = {}
    for name, value in (arguments.get("eval_results") or {}).items():
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            continue  # curves have no one number
        if numbers.ndim == 0:
            found[f"eval/{name}"] = float(numbers)
        elif numbers.ndim == 1:
            found |= {f"eval/{name}/{at}": float(each) for at, each in enumerate(numbers)}
    return found
