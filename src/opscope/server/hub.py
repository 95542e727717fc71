"""The trainings that are connected: what they say, and asking them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from opscope.errors import OpscopeError
from opscope.live.run_files import sees_witness
from opscope.live.wire import REFUSED, VERSION, WRONG_VERSION, Message, decode
from opscope.rundir.layout import RUNS, run_key
from opscope.server.library import Library
from opscope.server.live_arrays import LiveArrays
from opscope.server.mirror import Mirror, mirror_place
from opscope.server.training import ENDED, ConnectedRank, follow, receive, send

_SETTLE_S = 0.3
"""The time ranks get to come to the end of the step under way, before it is looked again."""
_MEETING_S = 120.0


class Hub:
    """All connected trainings, by run and rank."""

    def __init__(
        self,
        library: Library,
        page: Callable[[str], str] = lambda run: "",
        copies: Path = Path(RUNS),
    ) -> None:
        self._library = library
        self._page = page
        self._copies = copies
        """The folder that runs of other machines are copied to."""
        self._runs: dict[str, dict[int, ConnectedRank]] = {}
        self._watchers: dict[str, int] = {}
        self.arrays = LiveArrays()
        self.streams = 0
        """Pages and terminals that follow some run."""
        self.changes = 0
        """Grows with everything that a training says."""

    # ------------------------------------------------------------------ connections

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection of a training, from greeting to end."""
        await socket.accept()
        training = None
        try:
            hello = decode(await asyncio.wait_for(receive(socket), 10))
            if hello.get("version") != VERSION or hello["kind"] != "hello":
                await socket.close(WRONG_VERSION, f"this server speaks version {VERSION}")
                return
            training = ConnectedRank(socket, hello)
            await self._welcome(training, str(hello.get("witness", "")))
            while True:
                training.hear(decode(await receive(socket)))
                self.changes += 1
        except (WebSocketDisconnect, TimeoutError, RuntimeError):
            pass
        except OpscopeError:
            await socket.close(REFUSED)
        finally:
            if training is not None:
                training.leave()
                self.changes += 1

    async def _welcome(self, training: ConnectedRank, witness: str) -> None:
        """Find out where its records are, or are copied to, and tell it who looks."""
        self._find_place(training, witness)
        run = run_key(training.place)
        self._runs.setdefault(run, {})[training.rank] = training
        self._library.add(training.place)
        welcome = {
            "kind": "welcome",
            "page": self._page(run),
            "watchers": self._watchers.get(run, 0),
            "copies": training.mirror is not None,
        }
        await send(training.link, welcome)
        self.changes += 1
        if training.mirror is not None:
            training.follower = asyncio.create_task(follow(training, training.mirror))

    def _find_place(self, training: ConnectedRank, witness: str) -> None:
        """Decide where its records are read: in its own directory, or in a copy."""
        is_here = sees_witness(training.place, witness)
        beside = self._beside(training)
        if is_here and beside in (None, training.place):
            return
        training.place = beside or mirror_place(self._copies, str(training.place), training.run_id)
        before = self._runs.get(run_key(training.place), {}).get(training.rank)
        mirror = before.hand_over_mirror() if before is not None else None
        training.mirror = mirror or Mirror(training.place, training.rank)

    def _beside(self, training: ConnectedRank) -> Path | None:
        """Return where another rank of the same run is read."""
        for ranks in self._runs.values():
            alive = [each for each in ranks.values() if each.alive]
            same = alive and training.run_id and alive[0].run_id == training.run_id
            if same and all(each.rank != training.rank or each.is_same(training) for each in alive):
                return alive[0].place
        return None

    async def catch_up(self, run: str) -> None:
        """Have all that the ranks of a run have recorded so far."""
        copied = [each for each in self.trainings(run).values() if each.alive and each.mirror]
        await asyncio.gather(*(each.mirror.catch_up(each.ask) for each in copied if each.mirror))

    def trainings(self, run: str) -> dict[int, ConnectedRank]:
        """The ranks of a run that are or were connected."""
        return dict(sorted(self._runs.get(run, {}).items()))

    def connected(self, run: str) -> list[int]:
        """The ranks of a run that are connected now."""
        return [rank for rank, training in self.trainings(run).items() if training.alive]

    def is_live(self, run: str) -> bool:
        """Tell whether any rank of a run is connected."""
        return any(training.alive for training in self._runs.get(run, {}).values())

    @property
    def is_needed(self) -> bool:
        """True if a training is connected, or somebody looks."""
        return self.streams > 0 or any(self.is_live(run) for run in tuple(self._runs))

    def facts(self, run: str) -> Message:
        """Return how the ranks of a run stand."""
        found = [training.facts() for training in self.trainings(run).values()]
        return {"live": self.is_live(run), "watchers": self._watchers.get(run, 0), "ranks": found}

    # ------------------------------------------------------------------ people

    async def watch(self, run: str, change: int) -> None:
        """Note that somebody has begun, or has stopped, to look at a run."""
        self._watchers[run] = max(0, self._watchers.get(run, 0) + change)
        args = {"watchers": self._watchers[run]}
        for training in self.trainings(run).values():
            if training.alive:
                try:
                    await training.ask("presence", args)
                except OpscopeError:
                    continue

    # ------------------------------------------------------------------ asking

    def _alive(self, run: str) -> list[ConnectedRank]:
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
        """Return how the ranks of a run stand at this moment."""
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
        """Tell whether all ranks hold at one step; those behind are let on."""
        for _ in range(10):
            await asyncio.sleep(_SETTLE_S / 10)
            ranks = [training for training in self._alive(run) if training.state != ENDED]
            if all(training.is_held for training in ranks):
                break
        await self.fresh_facts(run)
        ranks = self._alive(run)
        steps = [training.step for training in ranks]
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
        last = max(training.step for training in ranks)
        waiting = all(training.state == "waiting" for training in ranks)
        await self.ask_all(run, "until", {"step": last + count - (1 if waiting else 0)})
