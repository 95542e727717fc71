"""Runs units in forked processes: what crashes or hangs is reported, and the next case follows."""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import json
import os
import runpy
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch._decomp.decompositions_for_jvp

from peers import units
from peers.judge import judge
from peers.watchers import EMPTY_MODE, WATCHERS, engine_name, forgets_bookkeeping

LIMIT_S = 180.0
"""How long a case may take before it counts as hanging."""
Message = dict[str, Any]
Says = Callable[[str], None]


@dataclasses.dataclass
class Plan:
    """What to run, and how."""

    names: Sequence[str]
    """Units."""
    watcher: str = "opscope"
    most: int = units.MOST_SAMPLES
    only: frozenset[str] = frozenset()
    """Cases, by their whole names; all if empty."""
    jobs: int = 1
    limit_s: float = LIMIT_S


@dataclasses.dataclass
class Report:
    """What came of it: cases by their whole names."""

    engine: str = ""
    cases: int = 0
    rows: int = 0
    seconds: float = 0.0
    differences: dict[str, str] = dataclasses.field(default_factory=dict)
    crashes: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    by_empty_mode: list[str] = dataclasses.field(default_factory=list)
    """Failures that a dispatch mode which does nothing makes just the same."""
    slowest: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def failures(self) -> dict[str, str]:
        """Differences and crashes."""
        return {**self.differences, **self.crashes}


class _Lane:
    """One process at a time, and the units that it has still to do."""

    def __init__(self, plan: Plan, names: Sequence[str]) -> None:
        self.plan = plan
        self.names = list(names)
        self.at = ""
        """The case under way."""
        self.after = ""
        """The case that ended the last process: its unit goes on behind it."""
        self.child = 0
        self.pipe: Any = None
        self.stderr: Any = None

    def start(self) -> None:
        """Fork a process for what is left."""
        reading, writing = os.pipe()
        self.stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        sys.stdout.flush()
        self.child = os.fork()
        if not self.child:
            os.close(reading)
            _work(self.plan, self.names, self.after, writing, self.stderr)
        os.close(writing)
        self.pipe = os.fdopen(reading)

    def end(self) -> str:
        """How the process ended, in words; empty if it did all it had to."""
        self.pipe.close()
        _, status = os.waitpid(self.child, 0)
        if not self.names:
            return ""
        self.stderr.seek(0)
        return f"{_ending(status)}\n{_last_words(self.stderr.read())}".strip()


def _last_words(said: str) -> str:
    """Where a process was when it ended: the innermost frames, or the end of what it said."""
    for begin in ("Fatal Python error", "Timeout ("):
        if begin in said:
            return said[said.rindex(begin) :][:1200].strip()
    return said[-1200:].strip()


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def run(plan: Plan, says: Says = lambda text: None) -> Report:
    """Run all units of a plan; crashes are tried once more without anybody watching."""
    began = time.monotonic()
    if plan.watcher == "opscope":
        _build_native()
    gc.collect()
    gc.freeze()  # who looks through all objects, as a capture that starts, finds few
    report = Report()
    lanes = [_Lane(plan, part) for part in units.chunks(plan.names, plan.jobs) if part]
    with selectors.DefaultSelector() as selector:
        for lane in lanes:
            _start(lane, selector)
        while selector.get_map():
            for key, _ in selector.select():
                _take(key.data, selector, report, says)
    if report.crashes and plan.watcher != "nothing":
        _excuse_plain_crashes(plan, report)
    if report.failures and report.engine == "python":
        _compare_with_empty_mode(plan, report)
    report.seconds = time.monotonic() - began
    return report


def _start(lane: _Lane, selector: selectors.BaseSelector) -> None:
    lane.start()
    selector.register(lane.pipe, selectors.EVENT_READ, lane)


def _take(lane: _Lane, selector: selectors.BaseSelector, report: Report, says: Says) -> None:
    """Read a message of a process, or notice that it ended."""
    line = lane.pipe.readline()
    if line:
        _hear(lane, json.loads(line), report, says)
        return
    selector.unregister(lane.pipe)
    ending = lane.end()
    if not ending:
        return
    name = lane.at or lane.names[0]
    report.crashes[name] = ending
    says(f"CRASH {name}: {ending.splitlines()[0]}")
    if lane.at:
        lane.after = lane.at
    else:
        lane.names.pop(0)
    lane.at = ""
    if lane.names:
        _start(lane, selector)


def _hear(lane: _Lane, message: Message, report: Report, says: Says) -> None:
    if "engine" in message:
        report.engine = message["engine"]
    elif "at" in message:
        lane.at = message["at"]
    elif "unit" in message:
        lane.names.pop(0)
        lane.at = lane.after = ""
        says(f"done {message['unit']} {message['seconds']:.2f} s")
        report.slowest[message["unit"]] = message["seconds"]
    else:
        _count(message, report, says)


def _count(message: Message, report: Report, says: Says) -> None:
    name = message["case"]
    report.cases += 1
    report.rows += message["rows"]
    if message["skipped"]:
        report.skipped[name] = message["skipped"]
    if message["differences"]:
        report.differences[name] = "\n".join(message["differences"])
        says(f"DIFFERENT {name}: {message['differences'][0]}")


def _excuse_plain_crashes(plan: Plan, report: Report) -> None:
    """What ends the process without being watched, too, is not the watcher's fault."""
    names = sorted({unit_of(name) for name in report.crashes})
    only = frozenset(report.crashes)
    plainly = run(dataclasses.replace(plan, names=names, watcher="nothing", only=only))
    for name in plainly.crashes:
        report.crashes.pop(name, None)
        report.skipped[name] = "ends the process without being watched, too"


def _compare_with_empty_mode(plan: Plan, report: Report) -> None:
    """Find the failures that any dispatch mode makes."""
    names = sorted({unit_of(name) for name in report.failures})
    only = frozenset(report.failures)
    bare = run(dataclasses.replace(plan, names=names, watcher=EMPTY_MODE, only=only))
    report.by_empty_mode = [
        *(name for name, what in report.differences.items() if bare.differences.get(name) == what),
        *(name for name, what in report.crashes.items() if _same_end(bare.crashes.get(name), what)),
    ]


def _same_end(one: str | None, other: str) -> bool:
    """Whether two crashes are of one kind; they need not have the same frames."""
    return one is not None and one.splitlines()[0] == other.splitlines()[0]


def unit_of(case: str) -> str:
    """The unit of a case's whole name."""
    return case.rpartition(":")[0]


def _build_native() -> None:
    """Build native code if there is none yet, so that no run begins without it."""
    child = os.fork()
    if not child:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            sys.argv = ["opscope.native"]
            try:
                runpy.run_module("opscope.native", run_name="__main__")
            finally:
                os._exit(0)
    os.waitpid(child, 0)


# ---------------------------------------------------------------- in the forked process


def _work(plan: Plan, names: Sequence[str], after: str, pipe: int, stderr: Any) -> NoReturn:
    """Do units until none is left; says what it is about to do, and what came of it."""
    code = 1
    try:
        os.dup2(stderr.fileno(), 2)
        os.dup2(2, 1)
        faulthandler.enable(file=sys.__stderr__)
        torch.set_num_threads(1)
        _say(pipe, engine=engine_name() if plan.watcher == "opscope" else plan.watcher)
        for name in names:
            _do_unit(plan, name, after if unit_of(after) == name else "", pipe)
        code = 0
    except BaseException:  # noqa: BLE001 - told by the exit code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _say(pipe: int, **message: Any) -> None:
    os.write(pipe, f"{json.dumps(message)}\n".encode())


def _do_unit(plan: Plan, name: str, after: str, pipe: int) -> None:
    began = time.monotonic()
    most = units.ALL_SAMPLES if plan.only else plan.most
    waiting = bool(after)
    bookkeeping = not forgets_bookkeeping(plan.watcher)
    found = units.cases_of(name, most)
    for case in found:
        full = f"{name}:{case.name}"
        if waiting or (plan.only and full not in plan.only):
            waiting = waiting and full != after
            continue
        _say(pipe, at=full)
        faulthandler.dump_traceback_later(plan.limit_s, exit=True)
        verdict = judge(case, WATCHERS[plan.watcher], bookkeeping)
        faulthandler.cancel_dump_traceback_later()
        _say(pipe, case=full, **dataclasses.asdict(verdict))
    _say(pipe, unit=name, seconds=time.monotonic() - began)
