"""Live control of one rank, put together."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opscope.access_token import own_token
from opscope.errors import INTERRUPTED
from opscope.live.bequest import Bequest
from opscope.live.controller import WAITING, Controller, TrainingState
from opscope.live.helper import helper_address
from opscope.live.kept import NAMED, ON_DISK, SMALL_BYTES, USUAL_BYTES, KeptValues
from opscope.live.link import FIRST_S, Link
from opscope.live.parameters import ParameterCopies
from opscope.live.run_files import FileVerbs, RunFiles
from opscope.live.sink import LiveSink
from opscope.live.spill import Spill
from opscope.live.verbs import Verbs
from opscope.messages import say

if TYPE_CHECKING:
    from opscope.events import Node, Snapshot
    from opscope.judge.watchpoint import Watchpoint
    from opscope.settings.run import RunSettings
    from opscope.watch.sink import WatchSink


class LiveSettings(NamedTuple):
    """The settings for the control of a training."""

    address: str = ""
    """host:port of the server; without one it is the helper of the run."""
    waits: bool = False
    """True to hold before step 0."""
    pauses: bool = False
    """True if a hit holds training even if nobody looks yet."""
    patience_s: float = 600.0
    keep: str = NAMED
    """Whose values are kept: of nodes that are named, of all, or none."""
    keep_bytes: int = USUAL_BYTES

    @classmethod
    def of(cls, settings: RunSettings) -> LiveSettings:
        """As the settings of a run say."""
        usual = SMALL_BYTES if settings.small_memory else USUAL_BYTES
        return cls(
            settings.server,
            settings.wait,
            settings.on_hit == "pause",
            settings.patience,
            settings.keep,
            settings.keep_budget or usual,
        )


class Live:
    """Connects a training to a server and lets people hold it."""

    def __init__(self, settings: LiveSettings, run_id: str, directory: Path, script: str) -> None:
        self.settings = settings
        self.controller = Controller(settings.patience_s)
        spill = Spill(directory, ON_DISK * settings.keep_bytes)
        self.kept = KeptValues(settings.keep_bytes, settings.keep, spill)
        self.kept.is_attended = lambda: self.controller.is_visited
        self.parameters = ParameterCopies(self.kept, self.controller)
        self.sink = LiveSink(self.controller, self.kept)
        self.terminated = False
        """True if somebody has ended training."""
        self._hello = {
            "run": run_id,
            "directory": str(directory.resolve()),
            "script": script,
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
        self._directory = directory
        self._link: Link | None = None
        self._bequest: Bequest | None = None
        self._waited = False
        self._let_on = -1
        """The last step whose hits somebody has let pass."""

    def connect(
        self,
        watch: WatchSink,
        snapshot: Callable[[], Snapshot],
        reconsider: Callable[[], None],
        rank: int,
        ranks: int,
    ) -> None:
        """Begin to look for the server."""
        self.parameters.snapshot = snapshot
        self.kept.is_watched = lambda node: _is_named(watch.watch.enabled, node)
        verbs = Verbs(self.controller, self.sink, self.kept, self.parameters, watch, ranks)
        self.controller.on_plan = reconsider
        token = own_token()
        hello = {**self._hello, "rank": rank, "ranks": ranks}

        def answer(verb: str, args: dict[str, Any]) -> Any:
            copying = files.verbs.get(verb)
            return copying(args) if copying else verbs.answer(verb, args)

        bequest = self._bequest = Bequest(self._directory, hello)

        def presence(is_there: bool, watchers: int) -> None:
            if is_there and link.copies:
                bequest.write(self._address())
            self.controller.set_presence(is_there, watchers)

        link = Link(self._address, token, hello, self._directory, answer, presence)
        files = FileVerbs(RunFiles(self._directory, rank), link.caught_up.set)
        self._link = link

        def told(status: TrainingState) -> None:
            link.tell(verbs.status())

        self.controller.on_change = told
        link.start()

    def _address(self) -> str:
        return self.settings.address or helper_address(self._directory)

    def wait_at_start(self) -> None:
        """Hold before step 0, if that was asked for and there is a server to wait for."""
        if self._waited or not self.settings.waits or self._link is None:
            return
        self._waited = True
        if self._link.connected.wait(FIRST_S):
            say(f"training waits to be told to go on{_at(self._link.page)}")
            say("next: opscope ctl last watch recommended; opscope ctl last continue")
            self.controller.hold_for_person("before step 0", 0, state=WAITING)
            self.safe_point(-1, True)

    def safe_point(self, step: int, before_update: bool) -> None:
        """Hold or end training here if somebody wants so."""
        if not before_update:
            self.parameters.end_step(step)
        if self.controller.boundary(step, before_update):
            self.terminated = True
            raise SystemExit(INTERRUPTED)

    @property
    def is_attended(self) -> bool:
        """True if a hit would hold training."""
        asked = self.settings.pauses or self.settings.waits
        return asked or self.controller.someone_looks

    def hold_at_hit(self, step: int, message: str) -> bool:
        """A hit would end training: hold instead if somebody looks; True to go on."""
        if step <= self._let_on:
            return True  # somebody has looked at this step
        if not self.is_attended:
            return False
        self.parameters.take()
        say(f"training holds at this hit{_at(self._link.page if self._link else '')}")
        answered = self.controller.hold(
            f"hit: {message}", step, hit={"step": step, "message": message}
        )
        if not answered:
            say("nobody was there to say how to go on: the hit ends training")
            return False
        self._let_on = step
        self.safe_point(step, True)
        return True

    def end(self) -> None:
        """Let go of the server: training is over."""
        self.controller.end()
        if self._link is not None:
            self._link.end()
        if self._bequest is not None:
            self._bequest.remove()


def _is_named(watchpoints: Sequence[Watchpoint], node: Node) -> bool:
    """Tell whether a watchpoint is about this very node or its place, not about all of a kind."""
    return any(
        watchpoint.select.names_place and watchpoint.select.matches_node(node)
        for watchpoint in watchpoints
    )


def _at(page: str) -> str:
    return f": {page}" if page else ""
