"""A session of opscope around somebody's training, whatever framework runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.capture.guards import quiet
from opscope.messages import say_once
from opscope.ranks import current_rank
from opscope.rundir.jsonlines import portable

if TYPE_CHECKING:
    from opscope.judge.hits import Hit
    from opscope.session import Session

SCALARS = "scalars.jsonl"
"""The file of scalars that a framework logs, in the directory of the rank."""


class Watching:
    """Starts a session with the options of `opscope.start`, or takes part in the one that runs."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._owned = False
        self.session: Session | None = None
        self.hits: list[Hit] = []
        self._unwritten: list[str] = []

    def start(self) -> None:
        """Begin, unless it has begun."""
        import opscope
        from opscope.session import current_session
        from opscope.watch import callbacks

        if self.session is not None and self.session.running:
            return
        running = current_session()
        if running is not None and running.running:
            if self._options:
                say_once("opscope watches already: the options given here have no effect")
            self.session, self._owned = running, False
        else:
            self.session, self._owned = opscope.start(**self._options), True
        callbacks.add(self._note)

    def stop(self, error: BaseException | None = None) -> None:
        """End what was begun here; a session of somebody else goes on."""
        from opscope.watch import callbacks

        callbacks.remove(self._note)
        self._write_scalars()
        session, self.session = self.session, None
        if session is not None and self._owned:
            if error is not None:
                session.note_failure(error)
            session.stop()

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Keep scalars beside what is recorded."""
        with quiet():  # this is no part of what is trained
            numbers = {name: _jsonable(value) for name, value in values.items()}
        self._unwritten.append(json.dumps({"step": step, "values": numbers}) + "\n")
        self._write_scalars()

    def _write_scalars(self) -> None:
        session = self.session
        if session is None or session.run_directory is None:
            self._unwritten.clear()
            return
        folder = session.run_directory / f"rank_{current_rank()}"
        if not folder.is_dir():
            return  # the first operator makes it
        try:
            with open(folder / SCALARS, "a", encoding="utf-8") as file:
                file.writelines(self._unwritten)
        except OSError as error:
            say_once(f"scalars cannot be kept in {folder}: {error}")
        self._unwritten.clear()

    def _note(self, hit: Hit) -> None:
        self.hits.append(hit)


def _jsonable(value: Any) -> Any:
    """A number, with NaN and infinities as text, or the text of something else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return int(value) if isinstance(value, bool | int) else portable(number)
