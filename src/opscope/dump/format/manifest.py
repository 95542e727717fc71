"""`.dump_metadata/manifest.json`: what the dump holds and whether it is complete."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from opscope.dump.layout import CONSTANTS, MANIFEST
from opscope.regular import read_regular
from opscope.wording import counted

FORMAT_VERSION = 1
_SHARE = 100
"""Writing it takes no more than such a part of the time, the longer it gets."""
_MAX_SKIPPED = 1000


@dataclass(slots=True)
class Iteration:
    """The account of what was written of one iteration."""

    iteration: int
    files: int = 0
    bytes: int = 0
    values: int = 0
    """Tensors in those files: one in each, unless they are packed."""
    rows: int = 0
    complete: bool = False
    passes: list[list[int]] = field(default_factory=list)
    """The passes of a step that has several: the task id that each begins with, and its number."""


@dataclass(slots=True)
class Skipped:
    """Values of one operator that could not be saved."""

    name: str
    io: str
    slot: int
    reason: str
    count: int = 0


@dataclass(slots=True)
class Manifest:
    """The state of a dump; any thread may add to it."""

    run: str
    rank: int
    started: str = field(default_factory=lambda: _now())
    ended: str = ""
    complete: bool = False
    failure: str = ""
    dropped: int = 0
    iterations: dict[int, Iteration] = field(default_factory=dict)
    constants: Iteration = field(default_factory=lambda: Iteration(CONSTANTS))
    samples: int = 0
    """The number of elements of each larger tensor that are saved; 0 for all of them."""
    skipped: dict[tuple[str, str, int, str], Skipped] = field(default_factory=dict)
    skipped_values: int = 0
    _lines: dict[int, str] = field(default_factory=dict, init=False)
    """Iterations as JSON, as long as they stay the same."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _written: float = field(default=0.0, init=False)
    _took: float = field(default=0.0, init=False)

    def wrote(self, iteration: int, size: int, values: int = 1) -> None:
        """Count a file of this iteration, or of the constants, that is in its place."""
        with self._lock:
            entry = self.constants if iteration == CONSTANTS else self._iteration(iteration)
            entry.files += 1
            entry.bytes += size
            entry.values += values

    def wrote_rows(self, iteration: int, count: int) -> None:
        """Count rows of this iteration that are in its statistic.csv."""
        with self._lock:
            self._iteration(iteration).rows += count

    def finish_iteration(self, iteration: int, complete: bool, passes: Sequence[int] = ()) -> None:
        """Note that all there is of this iteration has been written."""
        with self._lock:
            if complete or iteration in self.iterations:
                entry = self._iteration(iteration)
                entry.complete = complete
                entry.passes = [list(pair) for pair in zip(passes[::2], passes[1::2], strict=True)]

    def drop_iteration(self, iteration: int) -> None:
        """Forget an iteration of which there is nothing."""
        with self._lock:
            self.iterations.pop(iteration, None)
            self._lines.pop(iteration, None)

    def skip(self, name: str, io: str, slot: int, reason: str) -> None:
        """Note a value that cannot be saved, and why."""
        key = (name, io, slot, reason)
        with self._lock:
            self.skipped_values += 1
            if key in self.skipped or len(self.skipped) < _MAX_SKIPPED:
                self.skipped.setdefault(key, Skipped(*key)).count += 1

    def finish(self, failure: str, dropped: int) -> None:
        """Note the end of the dump."""
        with self._lock:
            self.ended = _now()
            self.failure, self.dropped = failure, dropped
            self.complete = not failure and not dropped

    def summary(self) -> str:
        """Return what was written, for people."""
        with self._lock:
            parts = list(self.iterations.values())
        written = [*parts, self.constants]
        files, rows = sum(each.files for each in written), sum(each.rows for each in parts)
        megabytes = sum(each.bytes for each in written) / 1e6
        parts_of = [f"{counted(files, 'file')} ({megabytes:,.1f} MB)"]
        parts_of += [counted(rows, "row")] if rows else []
        return " and ".join(parts_of) + f" of {counted(len(parts), 'iteration')}"

    def is_due(self) -> bool:
        """Tell whether to write it after an iteration: unless it has been written just now."""
        return time.monotonic() - self._written >= _SHARE * self._took

    def was_written(self, seconds: float) -> None:
        """Note how long it took to write the manifest after an iteration."""
        self._written, self._took = time.monotonic(), seconds

    def to_json(self) -> str:
        """The file's text."""
        with self._lock:
            content = {
                "format": FORMAT_VERSION,
                "run": self.run,
                "rank": self.rank,
                "started": self.started,
                "ended": self.ended or None,
                "complete": self.complete,
                "failure": self.failure or None,
                "dropped_values": self.dropped,
                "skipped_values": self.skipped_values,
                "sample_num": self.samples or None,
                "constants": {"files": self.constants.files, "bytes": self.constants.bytes},
                "skipped": [json.dumps(asdict(each)) for each in self.skipped.values()],
                "iterations": [self._line(key) for key in sorted(self.iterations)],
            }
        return _dumps(content)

    def _line(self, iteration: int) -> str:
        line = self._lines.get(iteration)
        if line is None:
            line = self._lines[iteration] = json.dumps(asdict(self.iterations[iteration]))
        return line

    def _iteration(self, iteration: int) -> Iteration:
        """The entry, which is about to change."""
        self._lines.pop(iteration, None)
        entry = self.iterations.get(iteration)
        if entry is None:
            entry = self.iterations[iteration] = Iteration(iteration)
        return entry


def run_of(rank_directory: Path) -> str | None:
    """The run that wrote a `rank_N` directory, if its manifest can be read."""
    try:
        content = json.loads(read_regular(rank_directory / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    return content.get("run") if isinstance(content, dict) else None


def _dumps(content: dict[str, object]) -> str:
    """JSON with one line per entry of a list, which are JSON: a long manifest stays readable."""
    lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(value: object) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"    {each}" for each in value) + "\n  ]"


def _now() -> str:
    return datetime.now(UTC).isoformat()
