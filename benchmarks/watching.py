"""opscope as a whole and in parts, and what it is compared with: context managers around steps.

Each yields a function to call at the end of every step.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from others import Empty, Naive
from programs import processor

import opscope
from opscope.capture import hook
from opscope.capture.torch_capture import TorchCapture
from opscope.events import BaseSink, Node, Sink, Want
from opscope.native.hook_library import build_hook
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.rundir.writer import RunWriter
from opscope.stats import native_cpu
from opscope.stats.engine import Engine

EndStep = Callable[[], None]
Watch = Callable[[], AbstractContextManager[EndStep]]

OUTSIDE = Want.OUTSIDE_STATS
OUTPUTS = Want.OUTSIDE_STATS | Want.OUTPUT_STATS
"""What a run directory has rows of."""


class PythonEngine(Engine):
    """Statistics as ever, but without the native hook: capture takes its Python path."""

    @property
    def row_function(self) -> int:
        return 0


class BlankEngine(Engine):
    """Rows with their heads filled in and nothing read: what is left is bookkeeping."""

    @property
    def row_function(self) -> int:
        """A function that finds no digit in what it is given, and says so by 0."""
        nothing = ctypes.cast(ctypes.CDLL(None).iswdigit, ctypes.c_void_p).value or 0
        return nothing if super().row_function else 0

    def fill(self, tensor: Any, address: int) -> bool:
        return True

    def submit(self, tensor: Any, address: int) -> None:
        pass


class BlankPythonEngine(BlankEngine):
    """The same without the native hook."""

    @property
    def row_function(self) -> int:
        return 0


class CountingEngine(PythonEngine):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def fill(self, tensor: Any, address: int) -> bool:
        size = min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        self.reads["tensors"] += 1
        self.reads["small"] += size <= 1 << 20
        self.reads["bytes"] += size
        return super().fill(tensor, address)


class Wanting(BaseSink):
    """Wants the same of every node, and counts the rows that come."""

    def __init__(self, want: Want) -> None:
        self._want = want
        self.rows: Counter[int] = Counter()
        """By step."""

    def wants(self, node: Node) -> Want:
        return self._want

    def stats(self, rows: Rows) -> None:
        if len(rows):
            self.rows[int(rows.records["step"][0])] += len(rows)


def _no_end() -> None:
    """Most have nothing to do at the end of a step."""


@contextmanager
def plain() -> Iterator[EndStep]:
    """Nobody watches."""
    yield _no_end


@contextmanager
def empty() -> Iterator[EndStep]:
    """An empty Python mode."""
    with Empty():
        yield _no_end


@contextmanager
def naive() -> Iterator[EndStep]:
    """Statistics by torch operators."""
    with Naive() as mode:
        yield mode.end_step


@contextmanager
def session(watch: str) -> Iterator[EndStep]:
    """opscope as it is used: names, scopes, stacks, statistics, into a run directory."""
    with (
        tempfile.TemporaryDirectory() as directory,
        opscope.start(run_dir=Path(directory) / "run", watch=watch, on_hit="log"),
    ):
        yield _no_end


@contextmanager
def capturing(
    sink: Sink, engine: Engine, accepts: Callable[[int], bool] = lambda step: True
) -> Iterator[EndStep]:
    """Part of opscope."""
    capture = TorchCapture(Pipeline([sink], engine, accepts), lambda: 0)
    capture.start()
    try:
        yield _no_end
    finally:
        capture.stop()


@contextmanager
def into_run_directory(engine: Engine) -> Iterator[EndStep]:
    """opscope into a run directory, with an engine of the caller's."""
    with tempfile.TemporaryDirectory() as directory:
        writer = RunWriter(Path(directory) / "run")
        with capturing(writer, engine) as end_step:
            yield end_step


WATCHES: dict[str, Watch] = {
    "plain": plain,
    "empty": empty,
    "naive": naive,
    "idle": lambda: capturing(BaseSink(), Engine(), lambda step: step == 0),
    "capture": lambda: capturing(BaseSink(), Engine()),
    "outside": lambda: capturing(Wanting(OUTSIDE), BlankEngine()),
    "rows": lambda: capturing(Wanting(OUTPUTS), BlankEngine()),
    "numbers": lambda: capturing(Wanting(OUTPUTS), Engine()),
    "stats": lambda: session("none"),
    "watch": lambda: session("recommended"),
    "capture-python": lambda: capturing(BaseSink(), PythonEngine()),
    "outside-python": lambda: capturing(Wanting(OUTSIDE), BlankPythonEngine()),
    "rows-python": lambda: capturing(Wanting(OUTPUTS), BlankPythonEngine()),
    "numbers-python": lambda: capturing(Wanting(OUTPUTS), PythonEngine()),
    "stats-python": lambda: into_run_directory(PythonEngine()),
}
"""Mode → how to watch.

`capture`: names, scopes, stacks, edges, no values; `outside`: and rows of parameters and batch,
their values not read; `rows`: of outputs too; `numbers`: their values read; `stats`: written to a
run directory; `watch`: and checked by the recommended watchpoints. `-python`: the same without the
native hook. `idle`: these steps are not recorded.
"""

_heard: set[str] = set()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep opscope from announcing every run; anything else it says is passed on, once."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    finally:
        for line in said.getvalue().splitlines():
            if "run written to" not in line and line not in _heard:
                _heard.add(line)
                print(line, file=sys.stderr, flush=True)


def prepare() -> dict[str, str]:
    """Build what is native, so that nothing that is measured does, and say what there is."""
    built = build_hook(torch)
    native = hook.load()
    return {
        "processor": processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "statistics": native_cpu.features(),
        "hook": "native" if native is not None else f"none ({built.reason or 'switched off'})",
    }
