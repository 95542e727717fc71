"""What opscope is compared with: an empty mode, plain torch operators, and msprobe.

    python benchmarks/others.py WORKLOAD L1|mix STEPS

runs msprobe (`pip install mindstudio-probe`) in this process and prints the fastest plain and the
fastest probed step in seconds of process time. It cannot be taken off a process cleanly, so plain
steps come first, before it is imported.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from workloads import WORKLOADS, Training

LEVELS = ("L1", "mix")
"""Every API, or modules as well."""
_NO_OPERATORS = ("profiler", "prim")
"""Namespaces of what is dispatched but computes nothing."""
_WARM = 4


class Empty(TorchDispatchMode):  # type: ignore[misc]
    """Does nothing to any operator: what a Python mode costs at least."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


class Count(Empty):
    """Counts operators."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.operators += func.namespace not in _NO_OPERATORS
        return func(*args, **kwargs) if kwargs else func(*args)


class Naive(Empty):
    """Statistics of every output by torch operators, as one would write them.

    Minimum, maximum, mean, norm and the counts of NaN and Inf (of numbers that are not floating
    point, minimum and maximum); views and memory without values are left out. `end_step` reads
    the results, all at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[Any, tuple[int, ...] | None] = {}
        self._results: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs) if kwargs else func(*args)
        try:
            written = self._written[func]
        except KeyError:
            written = self._written[func] = _written(func)
        if written is not None:
            outputs = result if result is not None else [args[i] for i in written if i < len(args)]
            for output in _tensors(outputs):
                self._measure(output)
        return result

    def _measure(self, tensor: torch.Tensor) -> None:
        if not tensor.numel() or tensor.is_complex():
            return
        self._results += torch.aminmax(tensor)
        if tensor.is_floating_point():
            self._results += (
                tensor.mean(dtype=torch.float32),
                torch.linalg.vector_norm(tensor, dtype=torch.float32),
                torch.isnan(tensor).sum(),
                torch.isinf(tensor).sum(),
            )

    def end_step(self) -> None:
        """Read the results of the step."""
        results, self._results = self._results, []
        with torch._C._DisableTorchDispatch():
            by_device: dict[tuple[str, torch.dtype], list[torch.Tensor]] = {}
            for result in results:
                by_device.setdefault((result.device.type, result.dtype), []).append(result)
            for alike in by_device.values():
                torch.stack(alike).tolist()


def _written(func: Any) -> tuple[int, ...] | None:
    """Which arguments an operator writes to; None if its outputs hold no new values."""
    schema = getattr(func, "_schema", None)
    if schema is None or func.is_view or "empty" in schema.name or func.namespace in _NO_OPERATORS:
        return None
    arguments = enumerate(schema.arguments)
    return tuple(i for i, a in arguments if a.alias_info is not None and a.alias_info.is_write)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def fastest(step: Callable[[], None], count: int) -> float:
    """The lowest process time of some steps, after a few that are not counted."""
    for _ in range(_WARM):
        step()
    times = []
    for _ in range(count):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return min(times)


def _probe(training: Training, level: str, directory: Path) -> Callable[[], None]:
    """A step under msprobe, with what it writes at the end of it."""
    from msprobe.pytorch import PrecisionDebugger

    task = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": "statistics", "level": level, "dump_path": str(directory / "dump")}
    file = directory / "config.json"
    file.write_text(json.dumps({**config, "rank": [], "step": [], "statistics": task}))
    debugger = PrecisionDebugger(config_path=str(file))

    def step() -> None:
        debugger.start(model=training.model)
        training()
        debugger.stop()
        debugger.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("steps", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    training = WORKLOADS[args.workload][0]()
    plain = fastest(training, args.steps)
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        probed = fastest(_probe(training, args.level, Path(directory)), args.steps)
    print(json.dumps([plain, probed]))


if __name__ == "__main__":
    main()
