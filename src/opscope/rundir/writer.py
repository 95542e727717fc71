"""The sink that writes a run directory."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opscope._version import __version__
from opscope.atomic_files import write_first
from opscope.events import BaseSink, Node, StepRecord, Want
from opscope.messages import say_once
from opscope.rows import Rows
from opscope.rundir import layout
from opscope.rundir.claim import move_aside, written_run_id
from opscope.rundir.ending import Ending, in_words
from opscope.rundir.jsonlines import encode
from opscope.rundir.leaving import await_exit_code
from opscope.rundir.rank_files import RankFiles
from opscope.rundir.records import device_name, now, torch_version
from opscope.stats.memory import RowMemory
from opscope.stats.record import description

DEFAULT_BUDGET = 2 << 30


class RunWriter(BaseSink):
    """Writes the statistics of every output, and of inputs from outside the step, to `directory`.

    `budget` bounds the bytes of rows per rank; `ending` says in the end what became of training.
    When the disk fails, or it does itself, it says so once, wants nothing from then on, and what is
    written stays readable.
    """

    def __init__(
        self,
        directory: Path,
        *,
        script: str = "",
        command: Sequence[str] = (),
        budget: int = DEFAULT_BUDGET,
        world_size: int = 1,
        run_id: str = "",
        ending: Callable[[], Ending] = Ending,
    ) -> None:
        self.directory = directory
        self._wanted = Want.OUTPUT_STATS | Want.OUTSIDE_STATS
        self._about = {
            "id": run_id,
            "script": script,
            "command": list(command),
            "world_size": world_size,
        }
        self._budget = budget
        self._ending = ending
        self._files: RankFiles | None = None
        self._closed: Path | None = None
        self._error = ""
        self._mutex = threading.Lock()
        _writers.add(self)

    def open(self, rank: int) -> None:
        try:
            self._open(rank)
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            self._fail(error)

    def _open(self, rank: int) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        run_id = str(self._about["id"])
        if run_id and run_id == written_run_id(self.directory):
            move_aside(layout.rank_directory(self.directory, rank))
        files = RankFiles(self.directory, rank, self._budget)
        files.memory.on_error = self._fail
        facts = encode({**_facts(), **self._about}, indent=1)
        write_first(self.directory / layout.RUN_FILE, facts)
        self._files = files

    def wants(self, node: Node) -> Want:
        return self._wanted

    def wants_step(self, step: int) -> bool:
        return bool(self._wanted)

    def node(self, node: Node) -> None:
        self._write(RankFiles.add_node, node)

    def kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        self._write(RankFiles.add_kind, number, dtype, shape)

    def row_memory(self) -> RowMemory | None:
        return None if self._files is None else self._files.memory

    def stats(self, rows: Rows) -> None:
        self._write(RankFiles.add_rows, rows)

    def step_end(self, record: StepRecord) -> None:
        self._write(RankFiles.add_step, record)

    def close(self) -> None:
        self._wanted = Want.NOTHING
        if self._files is None:
            return
        with self._mutex:
            try:
                self._files.close(self._ending())
            except Exception as error:  # noqa: BLE001 - told to the person; training must go on
                self._fail(error)
            self._closed, self._files = self._files.path, None

    @property
    def failed(self) -> bool:
        """True if something could not be written."""
        return bool(self._error)

    def await_exit_code(self, step: int | None) -> None:
        """Expect the process to leave in this step: a code it leaves with is a failure."""
        if self._closed is not None:
            await_exit_code(self._closed, step)

    def note(self, what: str) -> None:
        """Note that the run lacks something from here on, though rows are written still."""
        if self._files is not None:
            self._files.break_off(what)

    def _write(self, action: Callable[..., None], *args: Any) -> None:
        if self._files is None:
            return
        with self._mutex:
            if self._files is None or self._error:
                return
            try:
                action(self._files, *args)
            except Exception as error:  # noqa: BLE001 - told to the person; training must go on
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._wanted = Want.NOTHING
        is_first, self._error = not self._error, in_words(error)
        say_once(
            f"cannot write the run to {self.directory}: {_cause(error)}; "
            "nothing more is recorded there, training goes on"
        )
        if self._files is not None and is_first:
            with contextlib.suppress(OSError):
                self._files.break_off(self._error)

    def _abandon(self) -> None:
        self._wanted = Want.NOTHING
        files, self._files = self._files, None
        if files is not None:
            files.lock.release()


def _cause(error: Exception) -> str:
    """Say what went wrong; of a mistake of ours also where, so that it can be mended."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{in_words(error)} at {where.filename}:{where.lineno}"


def _facts() -> dict[str, Any]:
    return {
        "format": layout.FORMAT_VERSION,
        "started": now(),
        "opscope": __version__,
        "torch": torch_version(),
        "device": device_name(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cwd": str(Path.cwd()),
        "row": description(),
    }


_writers: weakref.WeakSet[RunWriter] = weakref.WeakSet()


def _abandon_in_child() -> None:
    """Write no more in a forked child (a DataLoader worker): the files are the parent's."""
    for writer in _writers:
        writer._abandon()


os.register_at_fork(after_in_child=_abandon_in_child)
