"""Runs and dumps in lists, and each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.read.dump_recording import DumpRecording
from opscope.read.reader import Reader
from opscope.read.recorded import has_recording
from opscope.read.run import Run
from opscope.read.summary import summarize
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_object
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.answers import RankState, RunDetails, RunLine

_VERSIONS = ("device", "opscope", "torch", "python", "platform")


def run_line(number: str, recording: Run | DumpRecording, live: bool) -> RunLine:
    """A run in a list, read without reading all of it."""
    found = summarize(recording)
    return {
        "id": number,
        "name": found.name,
        "kind": found.kind,
        "state": found.state,
        "started": found.started,
        "script": _script(recording),
        "ranks": found.ranks,
        "steps": found.steps,
        "loss": found.loss,
        "size": found.size,
        "live": live,
        "recording": has_recording(recording.path),
    }


def run_details(number: str, reader: Reader, views: list[RankView], live: bool) -> RunDetails:
    """A run with its ranks."""
    recording = reader.recording
    info: dict[str, Any] = getattr(recording, "info", {})
    command = info.get("command")
    return {
        "id": number,
        "name": recording.path.resolve().name,
        "path": str(recording.path),
        "kind": recording.kind,
        "state": recording.state,
        "started": recording.started,
        "script": str(info.get("script", "")),
        "command": [str(word) for word in command] if isinstance(command, list) else [],
        "versions": {name: str(info[name]) for name in _VERSIONS if name in info},
        "world_size": len(views),
        "ranks": [_rank_state(view) for view in views],
        "lacks": dict(recording.lacks),
        "live": live,
        "recording": has_recording(recording.path),
    }


def _rank_state(view: RankView) -> RankState:
    state = view.recorded.state
    facts = read_object(Path(view.recorded.path) / layout.RANK_FILE) or {}
    pid = facts.get("pid")
    steps = view.recorded.steps
    return {
        "rank": view.rank,
        "state": state.kind,
        "words": str(state),
        "pid": pid if isinstance(pid, int) else None,
        "host": str(facts.get("host", "")),
        "first_step": steps[0].step if steps else None,
        "last_step": steps[-1].step if steps else None,
        "nodes": len(view.nodes),
        "hits": len(view.hits),
    }


def _script(recording: Run | DumpRecording) -> str:
    return str(recording.info.get("script", "")) if isinstance(recording, Run) else ""
