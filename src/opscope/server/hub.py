"""The trainings that are connected: what they say, and asking them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from opscope.errors import OpscopeError
from opscope.live.wire import REFUSED, VERSION, WRONG_VERSION, Message, decode, encode
from opscope.rundir.layout import run_key
from opscope.server.library import Library

_PATIENCE_S = 90.0
"""How long a training may take to answer; it does some things only when a step ends."""
_GLANCE_S = 2.0
"""How long to wait for where a training stands."""
_SETTLE_S = 0.3
"""How long ranks get to come to the end of the step under way, before it is looked again."""
_MEETING_S = 120.0
HELD = ("paused", "waiting")
_ENDED = "ended"


class Training:
    """One connected rank."""

    def __init__(self, socket: WebSocket, hello: Message) -> None:
        self.socket = socket
        self.rank = _whole(hello.get("rank"))
        self.ranks = max(1, _whole(hello.get("ranks")) or 1)
        self.pid = _whole(hello.get("pid"))
        self.host = str(hello.get("host", ""))[:255]
        self.script = str(hello.get("script", ""))[:4096]
        self.status: Message = {"state": "running", "reason": "", "step": 0, "node": None}
        self.alive = True
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    @property
    def state(self) -> str:
        """running, paused, waiting or ended; lost if the connection broke before that."""
        state = str(self.status.get("state"))
        return state if self.alive or state == _ENDED else "lost"

    @property
    def is_held(self) -> bool:
        """Whether it holds."""
        return self.alive and self.state in HELD

    async def ask(self, verb: str, args: Message) -> Any:
        """Ask, and wait for the answer."""
        if not self.alive:
            raise OpscopeError(f"rank {self.rank} is not connected any more")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        question = {"kind": "question", "id": number, "verb": verb, "args": args}
        try:
            await self.socket.send_text(encode(question))
            return await asyncio.wait_for(answer, _PATIENCE_S)
        except TimeoutError:
            raise OpscopeError(f"rank {self.rank} did not answer for {_PATIENCE_S:g} s") from None
        except (RuntimeError, WebSocketDisconnect):
            raise OpscopeError(f"rank {self.rank} is not connected any more") from None
        finally:
            self._waiting.pop(number, None)

    async def refresh(self) -> None:
        """Ask where it stands now; it tells of changes by itself, but not of every step."""
        try:
            status = await asyncio.wait_for(self.ask("status", {}), _GLANCE_S)
        except (OpscopeError, TimeoutError):
            return
        if isinstance(status, dict):
            self.status = status

    def hear(self, message: Message) -> None:
        """A message has come."""
        if message["kind"] == "status" and isinstance(message.get("status"), dict):
            self.status = message["status"]
        elif message["kind"] == "bye":
            self.status = {**self.status, "state": _ENDED}
        elif message["kind"] == "answer":
            waiting = self._waiting.get(_whole(message.get("id")))
            if waiting is not None and not waiting.done():
                if "error" in message:
                    waiting.set_exception(OpscopeError(str(message["error"])))
                else:
                    waiting.set_result(message.get("result"))

    def leave(self) -> None:
        """The connection is over."""
        self.alive = False
        for waiting in self._waiting.values():
            if not waiting.done():
                error = OpscopeError(f"rank {self.rank} is not connected any more")
                waiting.set_exception(error)

    def facts(self) -> Message:
        """For whoever looks."""
        return {
            "reason": "",
            "step": 0,
            "node": None,
            "hit": None,
            "kept": [],
            "dropped": 0,
            **self.status,
            "rank": self.rank,
            "state": self.state,
            "pid": self.pid,
            "host": self.host,
        }


class Hub:
    """All connected trainings, by run and rank."""

    def __init__(self, library: Library, page: Callable[[str], str] = lambda run: "") -> None:
        self._library = library
        self._page = page
        self._runs: dict[str, dict[int, Training]] = {}
        self._watchers: dict[str, int] = {}
        self.streams = 0
        """Pages and terminals that follow some run."""
        self.changes = 0
        """Grows with everything that a training says."""

    # ------------------------------------------------------------------ connections

    async def serve(self, socket: WebSocket) -> None:
        """One connection of a training, from greeting to end."""
        await socket.accept()
        training, run = None, ""
        try:
            hello = decode(await asyncio.wait_for(socket.receive_text(), 10))
            if hello.get("version") != VERSION or hello["kind"] != "hello":
                await socket.close(WRONG_VERSION, f"this server speaks version {VERSION}")
                return
            directory = Path(str(hello.get("directory", "")))
            run = run_key(directory)
            training = Training(socket, hello)
            self._runs.setdefault(run, {})[training.rank] = training
            self._library.add(directory)
            watchers = self._watchers.get(run, 0)
            welcome = {"kind": "welcome", "page": self._page(run), "watchers": watchers}
            await socket.send_text(encode(welcome))
            self.changes += 1
            while True:
                training.hear(decode(await socket.receive_text()))
                self.changes += 1
        except (WebSocketDisconnect, TimeoutError, RuntimeError):
            pass
        except OpscopeError:
            await socket.close(REFUSED)
        finally:
            if training is not None:
                training.leave()
                self.changes += 1

    def trainings(self, run: str) -> dict[int, Training]:
        """The ranks of a run that are or were connected."""
        return dict(sorted(self._runs.get(run, {}).items()))

    def is_live(self, run: str) -> bool:
        """Whether any rank of a run is connected."""
        return any(training.alive for training in self._runs.get(run, {}).values())

    @property
    def is_needed(self) -> bool:
        """Whether a training is connected, or somebody looks."""
        return self.streams > 0 or any(self.is_live(run) for run in tuple(self._runs))

    def facts(self, run: str) -> Message:
        """How the ranks of a run stand."""
        found = [training.facts() for training in self.trainings(run).values()]
        return {"live": self.is_live(run), "watchers": self._watchers.get(run, 0), "ranks": found}

    # ------------------------------------------------------------------ people

    async def watch(self, run: str, change: int) -> None:
        """Somebody has begun, or has stopped, to look at a run."""
        self._watchers[run] = max(0, self._watchers.get(run, 0) + change)
        args = {"watchers": self._watchers[run]}
        for training in self.trainings(run).values():
            if training.alive:
                try:
                    await training.ask("presence", args)
                except OpscopeError:
                    continue

    # ------------------------------------------------------------------ asking

    def _alive(self, run: str) -> list[Training]:
        found = [training for training in self.trainings(run).values() if training.alive]
        if not found:
            raise OpscopeError(f"{run} is not connected: it has ended, or runs without a server")
        return found

    async def ask(self, run: str, rank: int | None, verb: str, args: Message) -> Any:
        """Ask one rank, or the first."""
        found = self._alive(run)
        chosen = [training for training in found if rank is None or training.rank == rank]
        if not chosen:
            raise OpscopeError(f"{run} has no rank {rank} that is connected")
        return await chosen[0].ask(verb, args)

    async def ask_all(self, run: str, verb: str, args: Message) -> list[Any]:
        """Ask all ranks at once."""
        return await asyncio.gather(*(each.ask(verb, args) for each in self._alive(run)))

    async def control(self, run: str, verb: str, args: Message) -> Message:
        """Have a training go on, hold or end: all of its ranks together."""
        if verb == "pause":
            await self._pause(run)
        elif verb == "step":
            await self._step(run, args)
        elif verb in ("continue", "terminate"):
            await self.ask_all(run, verb, args)
        elif verb in ("next", "to"):
            await self.ask(run, None, verb, args)
        else:
            verbs = "pause, step, continue, next, to and terminate"
            raise OpscopeError(f"{verb} is no way to go on; there are {verbs}")
        return await self.fresh_facts(run)

    async def fresh_facts(self, run: str) -> Message:
        """How the ranks of a run stand at this moment."""
        alive = [training for training in self.trainings(run).values() if training.alive]
        await asyncio.gather(*(training.refresh() for training in alive))
        return self.facts(run)

    async def _pause(self, run: str) -> None:
        """Hold all ranks at the end of the same step.

        Ranks that wait for each other in collectives cannot be more than a step apart: those that
        hold too early are let go on until the step that another has begun has ended.
        """
        await self.ask_all(run, "pause", {})
        deadline = asyncio.get_running_loop().time() + _MEETING_S
        while asyncio.get_running_loop().time() < deadline:
            if await self._settled(run):
                return
        raise OpscopeError(f"the ranks did not come to the end of a step for {_MEETING_S:g} s")

    async def _settled(self, run: str) -> bool:
        """Whether all ranks hold at one step; those behind are let on."""
        for _ in range(10):
            await asyncio.sleep(_SETTLE_S / 10)
            ranks = [training for training in self._alive(run) if training.state != _ENDED]
            if all(training.is_held for training in ranks):
                break
        await self.fresh_facts(run)
        ranks = self._alive(run)
        steps = [_whole(training.status.get("step")) for training in ranks]
        target = max(steps)
        held = all(training.is_held for training in ranks)
        if held and len(set(steps)) == 1:
            return True
        behind = [t for t, step in zip(ranks, steps, strict=True) if t.is_held and step < target]
        for training in behind:
            await training.ask("until", {"step": target})
        return False

    async def _step(self, run: str, args: Message) -> None:
        count = args.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OpscopeError("count must be a whole number of at least 1")
        ranks = self._alive(run)
        if len(ranks) == 1:
            await ranks[0].ask("step", {"count": count})
            return
        if not all(training.is_held for training in ranks):
            await self._pause(run)
        last = max(_whole(training.status.get("step")) for training in ranks)
        waiting = all(training.state == "waiting" for training in ranks)
        await self.ask_all(run, "until", {"step": last + count - (1 if waiting else 0)})


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
