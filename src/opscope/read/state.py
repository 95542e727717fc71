"""The state of a rank or a run, or how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from opscope.locks import is_held
from opscope.record.cause import EXEC, FAST_EXIT
from opscope.record.places import IN_RUN, REPORT_FILE
from opscope.rundir import layout
from opscope.rundir.ending import FAILED, FINISHED, STOPPED
from opscope.rundir.jsonlines import read_object

RUNNING, KILLED = "running", "killed"
_TOLD_WHOLE = (FAST_EXIT, EXEC)
_WORST_FIRST = (RUNNING, FAILED, STOPPED, KILLED, FINISHED)


class State(NamedTuple):
    """One of running, finished, stopped (by a hit), failed (with an exception) and killed."""

    kind: str
    reason: str = ""
    """The name of what was hit, the exception's type, or what killed it by the recorder."""
    message: str = ""
    step: int | None = None
    """The step that was under way."""
    incomplete: str = ""
    """The reason why not everything was recorded."""
    recorded_until: int | None = None
    """The last step that is recorded whole, if not everything is."""

    def __str__(self) -> str:
        parts = [self.kind]
        if self.reason:
            where = "" if self.step is None else f" in step {self.step}"
            parts = [f"{self.kind}: {self.reason}{where}"]
        if self.incomplete:
            until = self.recorded_until
            since = "from the start" if until is None else f"after step {until}"
            parts = [part for part in parts if part != FINISHED]
            parts.append(f"recording incomplete {since}: {self.incomplete}")
        return "; ".join(parts)


def rank_state(rank: Path) -> State:
    """The state of the rank in a directory."""
    end = read_object(rank / layout.END_FILE)
    broken = read_object(rank / layout.INCOMPLETE_FILE) or {}
    if end is None:
        state = State(RUNNING) if is_held(rank / layout.LOCK) else _of_recording(rank)
    else:
        kind = str(end.get("state", FINISHED))
        reason, message = str(end.get("reason", "")), str(end.get("message", ""))
        state = State(kind, reason, message, _number(end.get("step")))
    return state._replace(
        incomplete=str(broken.get("why", "")), recorded_until=_number(broken.get("after"))
    )


def _of_recording(rank: Path) -> State:
    """A rank that could not say how it ended; the recorder may know."""
    report = read_object(rank.parent / IN_RUN / rank.name / "rdr" / REPORT_FILE) or {}
    cause = str(report.get("cause", KILLED))
    if cause == KILLED:
        return State(KILLED)
    if cause in _TOLD_WHOLE:
        return State(KILLED, str(report.get("cause_text", "")))
    return State(KILLED, cause, step=_number(report.get("step")))


def overall(states: Mapping[int, State]) -> str:
    """The state of a run: that of the rank that tells most, which is named if others differ."""
    if not states:
        return KILLED
    worst = min(states, key=lambda rank: _severity(states[rank]))
    differ = len({str(state) for state in states.values()}) > 1
    is_one_rank = differ and str(states[worst]) != RUNNING
    return f"{states[worst]} (rank {worst})" if is_one_rank else str(states[worst])


def _severity(state: State) -> tuple[int, bool, bool]:
    order = _WORST_FIRST.index(state.kind) if state.kind in _WORST_FIRST else 0
    return order, "another rank" in state.reason, not state.incomplete


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
