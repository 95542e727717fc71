"""The recorder of this process: a ring, what writes to it, and what exports it in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.atomic_files import write_whole
from opscope.events import BaseSink, Node, StepRecord
from opscope.locks import FileLock, is_held
from opscope.messages import say, say_once
from opscope.native import shared
from opscope.ranks import current_rank, world_size
from opscope.record.cause import (
    FINISHED,
    HIT,
    Cause,
    in_marker,
    of_exception,
    of_handled_signal,
)
from opscope.record.death import STACKS_FILE, DeathWatch
from opscope.record.edges import edges_text
from opscope.record.exception import describe
from opscope.record.export import MADE_FILES, export_ring
from opscope.record.lines import lines_text, same_lines
from opscope.record.native import load
from opscope.record.places import EXCEPTION_FILE, FACTS_FILE, LOCK_FILE, rank_folder
from opscope.record.python_writer import PythonWriter
from opscope.record.reading import RingReader
from opscope.record.ring import RING_FILE, Ring, Sizes
from opscope.record.step_statistics import StepStatistics
from opscope.record.surroundings import oom_kills, surroundings
from opscope.rows import Rows
from opscope.rundir.jsonlines import encode
from opscope.settings.recorder import RecorderSettings

STEP_0 = "step_0"
"""The folder in which mode 2 writes what there is after the first step."""


class Recorder:
    """Records from `start` until `finish`; a process has one at most."""

    def __init__(
        self,
        settings: RecorderSettings,
        base: Path,
        *,
        rank: int,
        world_size: int = 1,
        command: Sequence[str] = (),
        sizes: Sizes | None = None,
    ) -> None:
        self.settings = settings
        self._base = base
        self._rank = rank
        self._command = list(command)
        self._world_size = world_size
        self._sizes = sizes or Sizes()
        self._pid = os.getpid()
        self._facts: dict[str, Any] = {}
        self._exception: dict[str, Any] | None = None
        self._exit_code = 0
        self._exit_message = ""
        self._with_stack: dict[int, int] = {}
        """By stack: the first node that has it."""
        self._lock: FileLock | None = None
        self.folder: Path | None = None
        """The folder of the ring and the files to come; None if nothing can be written."""
        self.sink = Heard(self)

    # ------------------------------------------------------------------ beginning

    def start(self) -> None:
        """Begin to record; torch is loaded.

        All that the end needs is imported now: an import at exit may run code from text, and then
        Python forgets that it was to end by SIGINT.
        """
        import torch

        import opscope.record.onnx_graph  # noqa: F401
        from opscope.capture.stacks import is_user_file
        from opscope.record.program import Program
        from opscope.record.step_facts import StepFactsRecorder

        self.ring = self._open_ring()
        native = load(torch)
        self.writer: Any = PythonWriter() if native is None else native
        if native is None:
            self.writer.attach(self.ring)
        else:
            native.open(self.ring.address, self.ring.memory, is_user_file)
            self.ring.native = native
        self._death = DeathWatch(self.writer, self.folder, self.settings.hang)
        self._death.on_thread_failure = self._thread_failed
        self._death.begin()
        self._write_facts()
        self._steps = StepFactsRecorder(self.ring, self.writer)
        self.program = Program(self.writer, self.ring, self._steps)
        self.program.on_step_end = self._step_ended
        self.program.install()
        self.writer.observe(True)
        self.program.on_network = self._settle_rank
        self._prepare_good_end()
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _prepare_good_end(self) -> None:
        """Have the recording removed if all ends well, which is known when Python is gone."""
        if self.folder is None or not hasattr(self.writer, "remove_after_good_end"):
            return
        names = (*MADE_FILES, RING_FILE, FACTS_FILE, STACKS_FILE, LOCK_FILE)
        paths = [*(self.folder / name for name in names), self.folder, *self._empty_parents()]
        self.writer.remove_after_good_end([os.fsencode(path) for path in paths])

    def _settle_rank(self) -> None:
        """Settle on the rank as training begins: the environment may have said another."""
        rank = current_rank()
        if rank == self._rank or self.folder is None:
            return
        before, target = self.folder, rank_folder(self._base, rank)
        if is_held(target / LOCK_FILE, unknown=False):
            return
        self._make_room(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        before.rename(target)
        with contextlib.suppress(OSError):
            before.parent.rmdir()
        self.folder, self._rank, self._world_size = target, rank, world_size()
        self._death.move(target)
        self._write_facts()
        self._prepare_good_end()

    def _empty_parents(self) -> list[Path]:
        """Folders that are made for the recording, and go with it when nothing else is there."""
        assert self.folder is not None
        return [self.folder.parent, self._base, *self._made_parents]

    def _open_ring(self) -> Ring:
        folder = rank_folder(self._base, self._rank)
        if is_held(folder / LOCK_FILE, unknown=False):  # such as a parent that is no rank itself
            folder = rank_folder(self._base, self._rank, self._pid)
        self._made_parents = [p for p in self._base.parents if not p.exists()]
        try:
            self._make_room(folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / LOCK_FILE)
            self._lock.take(0)
            ring = Ring.in_file(folder / RING_FILE, self._sizes)
        except OSError as error:
            say_once(
                f"the recorder cannot write to {folder} ({error.strerror}): it records in memory, "
                "and tries again when training ends abnormally"
            )
            self._drop_lock(folder)
            return Ring.in_memory(self._sizes)
        self.folder = folder
        return ring

    def _drop_lock(self, folder: Path) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        with contextlib.suppress(OSError):
            (folder / LOCK_FILE).unlink(missing_ok=True)

    def _make_room(self, folder: Path) -> None:
        """Rename what another process has left at this place."""
        if not folder.exists():
            return
        number = 1
        while (target := folder.with_name(f"{folder.name}.{number}")).exists():
            number += 1
        folder.rename(target)

    def _write_facts(self) -> None:
        self._facts = {
            **surroundings(self._command),
            "rank": self._rank,
            "world_size": self._world_size,
            "stack_signal": self._death.stack_signal,
            "mode": self.settings.mode,
        }
        self.ring["oom_kills"] = oom_kills(str(self._facts["cgroup"]))
        if self.folder is not None:
            with contextlib.suppress(OSError):
                write_whole(self.folder / FACTS_FILE, encode(self._facts, indent=1))

    # ------------------------------------------------------------------ while training runs

    @property
    def link(self) -> int:
        """The address of what native capture is to tell of operators; 0 for nothing."""
        return self.writer.link() if hasattr(self.writer, "link") else 0

    def name_node(self, node: Node) -> None:
        """Name a call site that the capture has seen for the first time."""
        self.writer.put_name(shared.NAME_NODE, node.id, node.name)
        if self.ring["names_used"] > self.ring["names_bytes"] // 2:
            return  # names matter more than what follows
        if node.sources:
            self.writer.put_name(shared.NAME_EDGES, node.id, edges_text(node.sources))
        first = self._with_stack.setdefault(node.stack.id, node.id)
        lines = lines_text(node.stack) if first == node.id else same_lines(first)
        self.writer.put_name(shared.NAME_LINES, node.id, lines)

    def mark_step(self) -> None:
        """End the step here, as the script says."""
        self.program.mark_step()

    def _step_ended(self, step: int) -> None:
        if step == 0 and self.settings.mode == 2:
            cause = Cause("running", "step 0 has ended")
            self._export(cause, subfolder=STEP_0)

    def _dump_stacks(self) -> None:
        with contextlib.suppress(OSError):
            self._death.dump_stacks()

    def _thread_failed(self, error: BaseException, thread: str) -> None:
        """Note an exception that ended a thread; the program may go on, or hang without it."""
        self.note_exception(error, thread)
        if self._exception is not None:
            self._export(self._cause())

    def note_exception(self, error: BaseException, thread: str = "") -> None:
        """Note the exception that training ends with; the first counts, unless a thread's."""
        known = self._exception
        if os.getpid() != self._pid or (known is not None and (thread or not known["thread"])):
            return
        self._dump_stacks()  # while the other threads are there
        if isinstance(error, SystemExit):
            self._exit_code, self._exit_message = _code_of(error), _message_of(error)
            if not self._exit_code or not isinstance(error.__context__, Exception):
                return
            error = error.__context__
        self.writer.mute(1)
        try:
            self._exception = describe(error, thread)
        except Exception as problem:  # noqa: BLE001 - told, and training ends as it would
            say_once(f"the recorder cannot describe the exception: {problem}")
            return
        finally:
            self.writer.mute(-1)
        text = in_marker(self._exception["type"], self._exception["message"])
        self.writer.mark(shared.MARKER_EXCEPTION, int(bool(thread)), text)

    # ------------------------------------------------------------------ the end

    def withdraw(self) -> None:
        """Make room for the ranks of this run, which are other processes."""
        self.writer.observe(False)
        self.program.uninstall()
        self._close()
        self._remove()

    def finish(self, hit: str = "", process_ends: bool = True) -> None:
        """Finish the recording: training has ended by a hit, by what was noted, or well."""
        if os.getpid() != self._pid:
            return
        cause = Cause(HIT, f"stopped by a hit: {hit}") if hit else self._cause()
        self.writer.observe(False)
        self.program.uninstall()
        if cause.is_abnormal or self.settings.mode == 2:
            if self._export(cause):
                self.ring["state"] = shared.RING_EXPORTED
            elif hasattr(self.writer, "call_witness"):  # which has memory that this one lacks
                self.writer.call_witness()
            self._close()
        elif process_ends:
            self.writer.mark(shared.MARKER_FINISHED, 0, "")
            self.ring["state"] = shared.RING_FINISHED
            self._steps.close()
        else:
            self._close()
            self._remove()

    def _cause(self) -> Cause:
        if self._exception is not None:
            about = self._exception
            return of_exception(about["type"], _first_line(about["message"]), about["thread"])
        handled = of_handled_signal(
            RingReader(self.ring.memory[:]), time.time_ns(), self._exit_code
        )
        if handled is None and self._exit_code:
            said = f": {self._exit_message}" if self._exit_message else ""
            return Cause("exit", f"it left with the code {self._exit_code}{said}")
        return handled or Cause(FINISHED, "it ended normally")

    def _export(self, cause: Cause, subfolder: str = "") -> bool:
        """Make files of the ring; returns whether they could be written."""
        folder = self.folder or rank_folder(self._base, self._rank)
        try:
            if self._exception is None and not self._exit_code:
                self._dump_stacks()
            self.ring.write_statistics(self.ring["step"])
            ring = RingReader(self.ring.memory[:])
            target = folder / subfolder if subfolder else folder
            target.mkdir(parents=True, exist_ok=True)
            if subfolder:
                shutil.copy(folder / STACKS_FILE, target / STACKS_FILE)
            export_ring(target, ring, cause, self._facts, self._exception)
            self._export_device_memory(target)
            if cause.kind != HIT:  # of which the run says what to look at next
                say(f"recording written to {target}; next: opscope report {target}")
        except Exception as error:  # noqa: BLE001 - told; training ends as it would
            reason = error.strerror if isinstance(error, OSError) else str(error) or repr(error)
            say_once(f"the recorder cannot write to {folder}: {reason}; training is not disturbed")
            return False
        return True

    def _export_device_memory(self, folder: Path) -> None:
        """Write the allocator's own list, where a GPU is in use."""
        import torch

        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError, OSError):
                snapshot = torch.cuda.memory.memory_snapshot()
                write_whole(folder / "cuda_memory.json", encode({"segments": snapshot}))

    def _close(self) -> None:
        self._death.end()
        self.writer.close()
        self._steps.close()
        if self._lock is not None:
            self._lock.release()

    def _remove(self) -> None:
        """Remove the recording of a training that ended well."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            names = (*MADE_FILES, EXCEPTION_FILE, RING_FILE, FACTS_FILE, STACKS_FILE, LOCK_FILE)
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
            for folder in (self.folder, *self._empty_parents()):
                folder.rmdir()

    def _leave_to_parent(self) -> None:
        """Leave the ring to the parent, in a forked child."""
        with contextlib.suppress(Exception):
            self.program.uninstall()
            self._death.leave_to_parent()


class Heard(BaseSink):
    """Hears of nodes and numbers where statistics run, for records and the facts of steps."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._statistics = StepStatistics()

    def node(self, node: Node) -> None:
        self._recorder.name_node(node)

    def stats(self, rows: Rows) -> None:
        self._statistics.add(rows)

    def step_end(self, record: StepRecord) -> None:
        found, self._statistics = self._statistics, StepStatistics()
        if found.values:
            self._recorder.ring.add_statistics(record.step, found.to_json())


def _code_of(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _message_of(error: SystemExit) -> str:
    """The text that `sys.exit` was given instead of a code."""
    return _first_line(error.code) if isinstance(error.code, str) else ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
