"""`Callback`: what a person hangs into training and evaluation, and what calls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Literal

from opscope.train.run_context import RunContext

Mode = Literal["train", "eval"]
_PLAIN = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


class Callback:
    """The base of all callbacks: each method is called at its time, with the run context.

    `begin` to `end` are called in training and in evaluation. Where a class has the `on_train_…` or
    `on_eval_…` form of one, that is called in its place.
    """

    def __enter__(self) -> Callback:
        """Training or evaluation is about to begin."""
        return self

    def __exit__(self, *exc: Any) -> None:
        """It is over, be it by an exception."""

    def begin(self, run_context: RunContext) -> None:
        """Before the network runs for the first time."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Before each epoch."""

    def epoch_end(self, run_context: RunContext) -> None:
        """After each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Before each step."""

    def step_end(self, run_context: RunContext) -> None:
        """After each step."""

    def end(self, run_context: RunContext) -> None:
        """After all epochs."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Before training."""
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Before each epoch of training."""
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """After each epoch of training, and its evaluation if there is one."""
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Before each step of training."""
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """After each step of training; `net_outputs` is its loss."""
        self.step_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        """After training."""
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Before an evaluation."""
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Before the one pass over the data of an evaluation."""
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        """After the one pass over the data of an evaluation."""
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        """Before each batch of an evaluation."""
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """After each batch of an evaluation; `net_outputs` is loss, output and label."""
        self.step_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        """After an evaluation; `metrics` are its results."""
        self.end(run_context)


def callback_list(callbacks: Callback | Iterable[Callback] | None) -> list[Callback]:
    """The callbacks somebody gave: none, one or several."""
    given = [] if callbacks is None else callbacks
    listed = [given] if isinstance(given, Callback) else list(given)
    for callback in listed:
        if not isinstance(callback, Callback):
            kind = type(callback).__name__
            hint = "; give an object of it, not the class" if isinstance(callback, type) else ""
            raise TypeError(f"callbacks must be opscope.train.Callback objects, not {kind}{hint}")
    return listed


class Callbacks:
    """Calls all callbacks in the order given; an exception of one says whose it is."""

    def __init__(
        self,
        callbacks: Sequence[Callback],
        context: RunContext,
        mode: Mode,
        inside_training: bool = False,
    ) -> None:
        self._callbacks = list(callbacks)
        self._entered = [] if inside_training else self._callbacks
        self._context = context
        self._mode = mode
        self._stack = ExitStack()

    def __enter__(self) -> Callbacks:
        with ExitStack() as stack:
            for callback in self._entered:
                stack.enter_context(callback)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)

    def __getattr__(self, hook: str) -> Any:
        if hook not in _PLAIN:
            raise AttributeError(hook)
        return lambda: self._call(hook)

    def _call(self, hook: str) -> None:
        name = f"on_{self._mode}_{hook}"
        for callback in self._callbacks:
            try:
                getattr(callback, name)(self._context)
            except Exception as error:
                error.add_note(self._where(callback, hook, name))
                raise

    def _where(self, callback: Callback, hook: str, name: str) -> str:
        """Say which method of which callback raised, and when."""
        arguments = self._context.original_args()
        cls = type(callback)
        method = name if getattr(cls, name) is not getattr(Callback, name) else hook
        step = arguments.get("cur_step_num", 0)
        when = f"epoch {arguments.get('cur_epoch_num', 1)}, step {step}" if step else "the start"
        return f"raised by the callback {cls.__name__} in {method}, at {when} of {self._mode}"
