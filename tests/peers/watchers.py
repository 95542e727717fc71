"""Ways to watch a run: opscope's, one that does nothing, and some that are wrong on purpose."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.recorder import Recorder, recording
from opscope.events import IO, ValueStats, Want
from opscope.messages import forget_said
from peers.cases import tensors_in
from peers.facts import data_of

STATS = Want.INPUT_STATS | Want.OUTPUT_STATS | Want.OUTSIDE_STATS
_COMPLAINTS = ("internal error", "Traceback")


class Watch:
    """What one watcher has to say of the runs it watched."""

    has_rows = False
    """Whether results must have rows."""

    def __init__(self) -> None:
        self.said = ""
        """What was printed for the person."""

    def run_ended(self) -> None:
        """One run is over, another may follow."""

    def rows_of(self, run: int) -> list[ValueStats]:
        """The rows of the outputs of one run."""
        return []

    @property
    def complaints(self) -> list[str]:
        """Lines that tell of a failure of the watcher itself."""
        return [
            line for line in self.said.splitlines() if any(word in line for word in _COMPLAINTS)
        ]


class OpscopeWatch(Watch):
    """Rows of every operator, run by run."""

    has_rows = True

    def __init__(self, recorder: Recorder, own_steps: bool) -> None:
        super().__init__()
        self.recorder = recorder
        self._own_steps = own_steps
        self._ends: list[int] = []
        if not own_steps:
            self.recorder.capture.mark_step()

    def run_ended(self) -> None:
        if not self._own_steps:
            self.recorder.capture.mark_step()
        self._ends.append(len(self.recorder.rows))

    def rows_of(self, run: int) -> list[ValueStats]:
        begin = self._ends[run - 1] if run else 0
        rows = self.recorder.rows[begin : self._ends[run]]
        return [found for found in rows if found.io is IO.OUTPUT]


@contextlib.contextmanager
def nothing(own_steps: bool = False) -> Iterator[Watch]:
    """Nobody watches."""
    yield Watch()


@contextlib.contextmanager
def opscope(own_steps: bool = False) -> Iterator[Watch]:
    """opscope records statistics of everything."""
    forget_said()
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr), recording(Recorder(STATS)) as recorder:
        watch = OpscopeWatch(recorder, own_steps)
        yield watch
    watch.said = stderr.getvalue()


def forgets_bookkeeping(watcher: str) -> bool:
    """Whether this watches by a dispatch mode, under which torch itself keeps other books.

    Torch then avoids writing to tensors it has just made, so how often they were written to, and
    the names of the functions they came from, are others; see `forced.py`.
    """
    return watcher == EMPTY_MODE or (watcher == "opscope" and engine_name() == "python")


@functools.cache
def engine_name() -> str:
    """What does the watching in this process, in a word: "native" or "python"."""
    with recording(Recorder(STATS)) as recorder:
        return "python" if recorder.capture._watch.hook is None else "native"


class _Mode(TorchDispatchMode):
    """A dispatch mode that treats keys and higher-order operators as opscope's does."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _AddUlp(_Mode):
    """Returns the next larger number wherever an operator makes new floats."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        makes_new = isinstance(result, Tensor) and func._schema.returns[0].alias_info is None
        if makes_new and result.dtype is torch.float32:
            return torch.nextafter(result, torch.full_like(result, float("inf")))
        return result


class _Reorder(_Mode):
    """Adds up in another order."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sum.default and args[0].dim():
            args = (args[0].flip(0).contiguous().t(), *args[1:])
            return func(args[0].double(), **(kwargs or {})).to(args[0].dtype)
        if func is torch.ops.aten.mm.default:
            args = (args[0].flip(1), args[1].flip(0))
        return func(*args, **(kwargs or {}))


class _DrawRandom(_Mode):
    """Takes a random number that was the program's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        torch.rand(1)
        return func(*args, **(kwargs or {}))


class _Rephrase(_Mode):
    """Raises what the operator raises, in other words."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            raise RuntimeError(f"{func}: {error}") from error


class _Restride(_Mode):
    """Returns the same numbers, laid out in another order."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dim() == 2 and result.is_contiguous():
            return result.t().contiguous().t()
        return result


class _Crash(_Mode):
    """Ends the process as a bug in native code does, at one operator, and hangs at another."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.abs.default:
            os.kill(os.getpid(), signal.SIGSEGV)
        if func is torch.ops.aten.neg.default:
            time.sleep(3600)
        return func(*args, **(kwargs or {}))


class _Leak(_Mode):
    """Forgets to take itself off."""


def _by_mode(mode: type[_Mode]) -> Callable[..., Any]:
    @contextlib.contextmanager
    def watching(own_steps: bool = False) -> Iterator[Watch]:
        with mode():
            yield Watch()

    return watching


@contextlib.contextmanager
def _leaking(own_steps: bool = False) -> Iterator[Watch]:
    _Leak().__enter__()
    yield Watch()


class _ChangedRows(OpscopeWatch):
    """Rows as opscope has them, but for one that is changed."""

    def __init__(self, change: Callable[[list[ValueStats]], list[ValueStats]], *args: Any) -> None:
        super().__init__(*args)
        self._change = change

    def rows_of(self, run: int) -> list[ValueStats]:
        return self._change(super().rows_of(run))


def _slightly_off(rows: list[ValueStats]) -> list[ValueStats]:
    return [found._replace(row=found.row._replace(mean=found.row.mean * 1.001)) for found in rows]


def _with_rows(change: Callable[[list[ValueStats]], list[ValueStats]]) -> Callable[..., Any]:
    @contextlib.contextmanager
    def watching(own_steps: bool = False) -> Iterator[Watch]:
        with recording(Recorder(STATS)) as recorder:
            yield _ChangedRows(change, recorder, own_steps)

    return watching


EMPTY_MODE = "empty-mode"
WATCHERS: dict[str, Callable[..., contextlib.AbstractContextManager[Watch]]] = {
    "opscope": opscope,
    "nothing": nothing,
    EMPTY_MODE: _by_mode(_Mode),
    "add-ulp": _by_mode(_AddUlp),
    "reorder": _by_mode(_Reorder),
    "draw-random": _by_mode(_DrawRandom),
    "rephrase": _by_mode(_Rephrase),
    "restride": _by_mode(_Restride),
    "crash": _by_mode(_Crash),
    "leak": _leaking,
    "rows-off": _with_rows(_slightly_off),
    "rows-lost": _with_rows(lambda rows: []),
}
"""By name; those after the empty mode are wrong on purpose, to see that it is noticed."""


class Observer(TorchDispatchMode):
    """Keeps copies of what operators return: independent of opscope, and never used beside it.

    Memory that nothing was written to yet has no row and is not kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, tuple[int, ...], Any]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(() if "empty" in func.__name__ else result):
            if tensor.layout is torch.strided and not tensor.is_nested:
                self.seen.add(identity_of(tensor))
        return result


def identity_of(tensor: Tensor) -> tuple[str, tuple[int, ...], Any]:
    """A tensor's numbers, and what they are numbers of."""
    return str(tensor.dtype), tuple(tensor.shape), data_of(tensor)
