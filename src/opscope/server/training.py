"""One connected rank: what it says, asking it, and copying what it records."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from pathlib import Path
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from opscope.alive import is_alive
from opscope.errors import OpscopeError
from opscope.live.wire import Message, encode
from opscope.messages import say_once
from opscope.server.mirror import LOOK_S, Mirror

_PATIENCE_S = 90.0
"""The time a training may take to answer; it does some things only when a step ends."""
_GLANCE_S = 2.0
"""The time to wait for where a training stands."""
HELD = ("paused", "waiting")
ENDED, LOST, DEAD = "ended", "lost", "dead"
_BACK_S = 30.0
"""A training whose connection broke tries every few seconds; after so long it is taken for dead."""


class ConnectedRank:
    """One connected rank."""

    def __init__(self, link: WebSocket, hello: Message) -> None:
        self.link = link
        self.run_id = str(hello.get("run", ""))[:255]
        self.place = Path(str(hello.get("directory", "")))
        """The folder from which this server reads what it records."""
        self.mirror: Mirror | None = None
        """Copies it there, if that is on another disk."""
        self.follower: asyncio.Task[None] | None = None
        self.news = asyncio.Event()
        """Set when there may be something to copy."""
        self.has_written = False
        """True if it has ended, and written all there is."""
        self.rank = whole(hello.get("rank"))
        self.ranks = max(1, whole(hello.get("ranks")) or 1)
        self.pid = whole(hello.get("pid"))
        self.host = str(hello.get("host", ""))[:255]
        self.script = str(hello.get("script", ""))[:4096]
        self.status: Message = {"state": "running", "reason": "", "step": 0, "node": None}
        self.alive = True
        self._left = 0.0
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    @property
    def state(self) -> str:
        """running, paused, waiting or ended; lost if the connection broke before, dead for good."""
        state = str(self.status.get("state"))
        if self.alive or state == ENDED:
            return state
        return DEAD if self._is_dead() else LOST

    def _is_dead(self) -> bool:
        """Tell whether its process is gone, or away for longer than a network fails."""
        is_gone = self.host == socket.gethostname() and not is_alive(self.pid)
        return is_gone or time.monotonic() - self._left > _BACK_S

    @property
    def is_held(self) -> bool:
        """True if it holds."""
        return self.alive and self.state in HELD

    @property
    def step(self) -> int:
        """The step that is under way, or that it holds in or after."""
        return whole(self.status.get("step"))

    async def ask(self, verb: str, args: Message) -> Any:
        """Ask, and wait for the answer."""
        if not self.alive:
            raise OpscopeError(f"rank {self.rank} is not connected any more")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        question = {"kind": "question", "id": number, "verb": verb, "args": args}
        try:
            await send(self.link, question)
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
        """Take in a message that has come."""
        if message["kind"] == "status" and isinstance(message.get("status"), dict):
            self.status = message["status"]
            self.news.set()
        elif message["kind"] == "written":
            self.has_written = True
            self.news.set()
        elif message["kind"] == "bye":
            self.status = {**self.status, "state": ENDED}
        elif message["kind"] == "answer":
            waiting = self._waiting.get(whole(message.get("id")))
            if waiting is not None and not waiting.done():
                if "error" in message:
                    waiting.set_exception(OpscopeError(str(message["error"])))
                else:
                    waiting.set_result(message.get("data", message.get("result")))

    def leave(self) -> None:
        """Note that the connection is over."""
        self.alive = False
        self._left = time.monotonic()
        if self.follower is not None:
            self.follower.cancel()
        if self.mirror is not None:
            self.mirror.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                error = OpscopeError(f"rank {self.rank} is not connected any more")
                waiting.set_exception(error)

    def is_same(self, other: ConnectedRank) -> bool:
        """Tell whether both are connections of one process, which may not have ended the first."""
        return (self.host, self.pid) == (other.host, other.pid)

    def hand_over_mirror(self) -> Mirror | None:
        """The copy of this rank goes on with another connection of it."""
        mirror, self.mirror = self.mirror, None
        if self.follower is not None:
            self.follower.cancel()
        if mirror is not None:
            mirror.close()
        return mirror

    def facts(self) -> Message:
        """For whoever looks."""
        return {
            "reason": "",
            "step": 0,
            "node": None,
            "hit": None,
            "keep": "named",
            "kept": [],
            "dropped": 0,
            **self.status,
            "rank": self.rank,
            "state": self.state,
            "pid": self.pid,
            "host": self.host,
        }


async def follow(training: ConnectedRank, mirror: Mirror) -> None:
    """Copy what a training records, until it has ended and all is here."""
    try:
        mirror.open()
        while training.alive:
            training.news.clear()
            is_all = training.has_written
            await mirror.catch_up(training.ask)
            if is_all:
                mirror.close()
                await training.ask("caught_up", {})
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(training.news.wait(), LOOK_S)
    except OSError as error:
        say_once(f"cannot copy a run to {training.place}: {error.strerror or error}")
    except OpscopeError:
        return  # it is not connected any more


async def send(link: WebSocket, message: Message) -> None:
    """Send a message."""
    content = encode(message)
    if isinstance(content, str):
        await link.send_text(content)
    else:
        await link.send_bytes(content)


async def receive(link: WebSocket) -> str | bytes:
    """The next message."""
    message = await link.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    content: str | bytes | None = message.get("text")
    return content if content is not None else message.get("bytes") or b""


def whole(value: Any) -> int:
    """A number that a message should have, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
