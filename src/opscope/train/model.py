"""`Model`: a network, its loss, its optimizer and its metrics, with the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from opscope.capture.guards import quiet
from opscope.logs import get_logger
from opscope.messages import say_once
from opscope.train.batches import Batch, batches_of, count_of, moved, split
from opscope.train.callback import Callback, Callbacks, callback_list
from opscope.train.metrics.base import Metric
from opscope.train.metrics.names import metrics_of
from opscope.train.precision import MixedPrecision
from opscope.train.progress import Progress
from opscope.train.run_context import Arguments, RunContext
from opscope.train.states import evaluating, same_random_numbers

_log = get_logger("train")


class Model:
    """Trains and evaluates a network, and calls callbacks on the way.

    With a loss function, the last part of a batch is its label and the others go to the network.
    Without one, the whole batch goes to the network, which returns the loss. `amp` trains in mixed
    precision: "bfloat16" or "float16". `progress` switches the bar on or off; None shows it on a
    terminal. Of a Dataset, batches of `batch_size` are made.
    """

    def __init__(
        self,
        network: nn.Module,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        metrics: Mapping[str, Any] | Iterable[str] | None = None,
        *,
        amp: Any = None,
        progress: bool | None = None,
        batch_size: int = 32,
    ) -> None:
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module, not {type(network).__name__}")
        self.network = network
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.metrics = metrics_of(metrics)
        self._precision = MixedPrecision(amp, self._device())
        self._progress = progress
        self._batch_size = batch_size

    # ------------------------------------------------------------------ training

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Callback | Iterable[Callback] | None = None,
        dataset_sink_mode: bool | None = None,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train for so many epochs; `initial_epoch` of them are done already."""
        _no_sinking(dataset_sink_mode)
        self._fit(epoch, train_dataset, callback_list(callbacks), initial_epoch)

    def fit(
        self,
        epoch: int,
        train_dataset: Any,
        valid_dataset: Any = None,
        valid_frequency: int | Sequence[int] = 1,
        callbacks: Callback | Iterable[Callback] | None = None,
        dataset_sink_mode: bool | None = None,
        valid_dataset_sink_mode: bool | None = None,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train, and evaluate after every `valid_frequency` epochs, or after those listed."""
        _no_sinking(dataset_sink_mode, valid_dataset_sink_mode)
        listed = callback_list(callbacks)
        if valid_dataset is None:
            self._fit(epoch, train_dataset, listed, initial_epoch)
            return
        self._require_metrics()

        def validate(number: int) -> dict[str, Any] | None:
            if isinstance(valid_frequency, int):
                due = number % valid_frequency == 0
            else:
                due = number in valid_frequency
            return self._evaluate(valid_dataset, listed, number, True) if due else None

        self._fit(epoch, train_dataset, listed, initial_epoch, validate)

    def _fit(
        self,
        epochs: int,
        dataset: Any,
        callbacks: list[Callback],
        initial_epoch: int,
        validate: Callable[[int], dict[str, Any] | None] | None = None,
    ) -> None:
        if self.optimizer is None:
            raise ValueError("training needs an optimizer: Model(network, loss_fn, optimizer)")
        if not isinstance(epochs, int) or epochs < 1 or not 0 <= initial_epoch < epochs:
            raise ValueError(f"epoch = {epochs}, initial_epoch = {initial_epoch}: not a range")
        batches = batches_of(dataset, self._batch_size, epochs - initial_epoch)
        arguments = self._arguments("train", callbacks, count_of(batches))
        arguments |= {
            "epoch_num": epochs,
            "train_dataset": dataset,
            "train_network": self.network,
            "train_dataset_element": None,
            "initial_step": initial_epoch * (arguments.batch_num or 0),
            "last_save_ckpt_step": None,
            "latest_ckpt_file": None,
        }
        arguments.cur_step_num = arguments.initial_step
        context = RunContext(arguments)
        _log.info("training of %s for %d epochs", type(self.network).__name__, epochs)
        self.network.train()
        with Callbacks(callbacks, context, "train") as call:
            call.begin()
            for number in range(initial_epoch + 1, epochs + 1):
                arguments.cur_epoch_num = number
                call.epoch_begin()
                self._train_epoch(batches, context, call, number)
                if validate is not None:
                    arguments.eval_results = validate(number)
                call.epoch_end()
                if context.get_stop_requested():
                    break
            call.end()
        _log.info("training ended after step %d", arguments.cur_step_num)

    def _train_epoch(
        self, batches: Iterable[Any], context: RunContext, call: Callbacks, number: int
    ) -> None:
        arguments, steps = context.original_args(), 0
        title = f"epoch {number}/{arguments.epoch_num}"
        with Progress(title, arguments.batch_num, self._progress) as bar:
            for element in batches:
                steps += 1
                arguments.cur_step_num += 1
                arguments.cur_step_in_epoch = steps
                arguments.train_dataset_element = element
                call.step_begin()
                arguments.net_outputs = self._train_step(element)
                call.step_end()
                bar.advance(lambda: f", loss {float(arguments.net_outputs):.4g}")
                if context.get_stop_requested():
                    break
        if not steps:
            raise ValueError("the dataset has no batch to train with")
        if arguments.batch_num is None and not context.get_stop_requested():
            arguments.batch_num = steps

    def _train_step(self, element: Any) -> torch.Tensor:
        """Forward, backward and update; the loss."""
        assert self.optimizer is not None
        self.optimizer.zero_grad(set_to_none=True)
        with self._precision.autocast():
            _, loss = self._forward(self._batch(element))
        if loss is None:
            raise ValueError("the network has returned no loss; give the Model a loss_fn")
        self._precision.update(loss, self.optimizer)
        with quiet():  # this is no part of what is trained
            return loss.detach()

    # ------------------------------------------------------------------ evaluation

    def eval(
        self,
        valid_dataset: Any,
        callbacks: Callback | Iterable[Callback] | None = None,
        dataset_sink_mode: bool | None = None,
    ) -> dict[str, Any]:
        """Evaluate: the metrics of the model by name. Training goes on as if nothing had been."""
        _no_sinking(dataset_sink_mode)
        self._require_metrics()
        return self._evaluate(valid_dataset, callback_list(callbacks), 1)

    def _evaluate(
        self, dataset: Any, callbacks: list[Callback], epoch: int, inside_training: bool = False
    ) -> dict[str, Any]:
        batches = batches_of(dataset, self._batch_size)
        arguments = self._arguments("eval", callbacks, count_of(batches))
        arguments |= {
            "epoch_num": 1,
            "cur_epoch_num": epoch,
            "valid_dataset": dataset,
            "eval_network": self.network,
            "eval_dataset_element": None,
        }
        context = RunContext(arguments)
        for metric in self.metrics.values():
            metric.clear()
        with (
            same_random_numbers(),
            evaluating(self.network, self.loss_fn),
            Callbacks(callbacks, context, "eval", inside_training) as call,
        ):
            call.begin()
            call.epoch_begin()
            self._evaluate_batches(batches, context, call)
            call.epoch_end()
            with quiet():
                arguments.metrics = {name: metric.eval() for name, metric in self.metrics.items()}
            call.end()
        return dict(arguments.metrics)

    def _evaluate_batches(
        self, batches: Iterable[Any], context: RunContext, call: Callbacks
    ) -> None:
        arguments = context.original_args()
        with Progress("evaluation", arguments.batch_num, self._progress) as bar:
            for element in batches:
                arguments.cur_step_num += 1
                arguments.cur_step_in_epoch = arguments.cur_step_num
                arguments.eval_dataset_element = element
                call.step_begin()
                batch = self._batch(element)
                with self._precision.autocast():
                    output, loss = self._forward(batch)
                arguments.net_outputs = (loss, output, batch.label)
                for name, metric in self.metrics.items():
                    _update(name, metric, arguments.net_outputs)
                call.step_end()
                bar.advance()
                if context.get_stop_requested():
                    break
        if not arguments.cur_step_num:
            raise ValueError("the dataset has no batch to evaluate")

    def predict(self, *inputs: Any) -> Any:
        """The output of the network for these inputs."""
        with (
            same_random_numbers(),
            evaluating(self.network),
            self._precision.autocast(),
        ):
            return self.network(*moved(inputs, self._device()))

    # ------------------------------------------------------------------ parts

    def _forward(self, batch: Batch) -> tuple[Any, Any]:
        """The network's output and the loss."""
        output = self.network(*batch.inputs, **batch.named)
        if self.loss_fn is not None:
            return output, self.loss_fn(output, batch.label)
        loss = getattr(output, "loss", None)
        if loss is not None:  # as models of Hugging Face return it
            return getattr(output, "logits", output), loss
        first = output[0] if isinstance(output, tuple | list) else output
        is_loss = isinstance(first, torch.Tensor) and first.numel() == 1
        rest = output[1] if isinstance(output, tuple | list) and len(output) > 1 else output
        return (rest, first) if is_loss else (output, None)

    def _batch(self, element: Any) -> Batch:
        batch = split(element, self.loss_fn is not None)
        inputs, named, label = moved(tuple(batch), self._device())
        return Batch(inputs, named, label)

    def _device(self) -> torch.device:
        """Return where the network is; batches are moved there."""
        for tensor in (*self.network.parameters(), *self.network.buffers()):
            return tensor.device
        return torch.device("cpu")

    def _require_metrics(self) -> None:
        if not self.metrics:
            raise ValueError('evaluation needs metrics: Model(…, metrics={"accuracy", "loss"})')

    def _arguments(self, mode: str, callbacks: list[Callback], count: int | None) -> Arguments:
        """Gather what a callback can ask for in training and in evaluation."""
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        world = torch.distributed.get_world_size() if ready else 1
        return Arguments(
            mode=mode,
            network=self.network,
            loss_fn=self.loss_fn,
            optimizer=self.optimizer,
            loss_scale_manager=self._precision.scaler,
            parallel_mode="data_parallel" if world > 1 else "stand_alone",
            device_number=world,
            list_callback=callbacks,
            dataset_sink_mode=False,
            batch_num=count,
            cur_step_num=0,
        )


def _update(name: str, metric: Metric, outputs: tuple[Any, Any, Any]) -> None:
    """Tell a metric of a batch; what it raises says which one it is."""
    values = [outputs[index] for index in metric.indexes]
    if values[0] is None:
        raise ValueError(f'the metric "{name}" needs a loss; give the Model a loss_fn')
    try:
        with quiet():
            metric.update(*values)
    except Exception as error:
        error.add_note(f'raised by the metric "{name}" ({type(metric).__name__})')
        raise


def _no_sinking(*modes: bool | None) -> None:
    if any(mode is not None for mode in modes):
        say_once(
            "dataset_sink_mode has no effect: in PyTorch every step takes its batch itself",
            "dataset_sink_mode",
        )
