"""Finds a value's elements: in what was written, or in a connected training."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opscope.arrays import Array, Data, look, taken
from opscope.errors import OpscopeError
from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.views.tensor_view import Which, picture_kind


class Against(NamedTuple):
    """The other side of a comparison: `step:3`, `rank:1`, or nothing."""

    other: str = ""
    show: str = "difference"
    """difference, or before: the other one itself."""
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_difference(self) -> bool:
        """True if two values are looked at together."""
        return bool(self.other) and self.show == "difference"

    def number(self, kind: str) -> int | None:
        """The step or rank, if it is one."""
        word, _, digits = self.other.partition(":")
        return int(digits) if word == kind else None


@dataclass(frozen=True)
class Looked:
    """A value whose elements can be asked for."""

    which: Which
    held: str
    against: Against
    other: Which | None = None
    """The value of what was written that it is compared with."""
    hub: Hub | None = None
    run: str = ""
    live: Data = field(default_factory=dict)
    """The name that a training has for it."""
    pair: tuple[Array, Array] | None = None
    """Of two ranks that are trained: its elements, and those that it is compared with."""

    async def look(self, part: str, **args: Any) -> Data:
        """A part of its elements, or of the difference."""
        asked = {name: value for name, value in args.items() if value not in (None, "")}
        asked |= {"rtol": self.against.rtol, "atol": self.against.atol}
        if self.hub is None or self.pair is not None:
            return await asyncio.to_thread(self._look, part, asked)
        where = self.live | {"part": part} | asked
        found: Data = await self.hub.ask(self.run, self.which.view.rank, "value", where)
        return found

    async def array(self, index: str = "") -> Array:
        """The elements that an index takes; of a training, as many as a message holds."""
        if self.hub is None:
            return await asyncio.to_thread(lambda: taken(self._now(), index))
        live = self.live | ({"index": index} if index else {})
        return await self.hub.arrays.get(self.hub, self.run, self.which.view.rank, live)

    def _now(self) -> Array:
        """Return what is shown, of what was written: the value, or the one before."""
        shown = self.other if self.other is not None and not self.against.is_difference else None
        return (shown or self.which).array()

    def _look(self, part: str, args: Data) -> Data:
        if self.pair is not None:
            now, before = self.pair
            if not self.against.is_difference:
                return look(before, part, args)
            return look(now, part, args, before)
        other = self.other.array() if self.other and self.against.is_difference else None
        return look(self._now(), part, args, other)


async def find(
    hub: Hub, library: Library, run: str, which: Which, step: int | None, against: Against
) -> Looked:
    """Return where the elements are; an error says why nobody has them."""
    if which.is_held:
        held = "hit" if which.view.reader.is_run else "dump"
        other = await asyncio.to_thread(_other, library, run, which, against)
        return Looked(which, held, against, other)
    live = await live_name(hub, run, which, step)
    if live is None:
        which.array()  # says why there is nothing
        raise OpscopeError(f"the elements of {which.address} are gone")
    rank = against.number("rank")
    if rank is not None:
        pair = await _two_ranks(hub, library, run, which, step, live, rank)
        return Looked(which, live_kind(live), against, None, hub, run, live, pair)
    if against.other:
        live |= {"against": against.number("step"), "show": against.show}
    return Looked(which, live_kind(live), against, None, hub, run, live)


async def _two_ranks(
    hub: Hub, library: Library, run: str, which: Which, step: int | None, live: Data, rank: int
) -> tuple[Array, Array]:
    """The elements of a value on two ranks that are being trained."""
    view = await asyncio.to_thread(library.open(run).view, rank)
    other = await live_name(hub, run, which.on_rank(view), live.get("step", step))
    if other is None:
        raise OpscopeError(f"rank {rank} keeps no {which.address}; have it kept there too")
    now = await hub.arrays.get(hub, run, which.view.rank, live)
    return now, await hub.arrays.get(hub, run, rank, other)


def live_kind(live: Data) -> str:
    """Return what a training has it as."""
    return "parameter" if "parameter" in live else "kept"


async def live_name(hub: Hub, run: str, which: Which, step: int | None) -> Data | None:
    """Return what a connected training calls the value, if it keeps it, or a parameter."""
    if not hub.is_live(run):
        return None
    rank = which.view.rank
    try:
        kept = await hub.ask(run, rank, "kept", {})
    except OpscopeError:
        return None
    found = [
        key["step"]
        for key in kept
        if (key["node"], key["io"], key["slot"]) == (which.node.id, which.io, which.slot)
        and (step is None or key["step"] == step)
    ]
    if found:
        where = {"node": which.node.name, "io": str(which.io), "slot": which.slot}
        return where | {"step": max(found)}
    return {"parameter": which.parameter} if which.parameter and step is None else None


async def live_facts(hub: Hub, run: str, which: Which, step: int | None) -> Data:
    """Ask a connected training for a value that nobody has written; nothing if it has none."""
    live = await live_name(hub, run, which, step)
    if live is None:
        return {}
    rank = which.view.rank
    found = await hub.ask(run, rank, "value", live | {"part": "layout"})
    numbers = await hub.ask(run, rank, "value", live | {"part": "statistics"})
    shape = tuple(found["shape"])
    return {
        "held": live_kind(live),
        "why": "",
        "step": live.get("step", which.step),
        "shape": list(shape),
        "dtype": which.value.dtype if which.value else found["dtype"],
        "numbers": numbers["numbers"],
        "pictures": picture_kind(which, shape),
        "previous": await _kept_before(hub, run, which, live),
    }


async def _kept_before(hub: Hub, run: str, which: Which, live: Data) -> int | None:
    """The step before, where a training keeps the value of that as well."""
    rank = which.view.rank
    if "parameter" not in live:
        before = int(live["step"]) - 1
        return before if await live_name(hub, run, which, before) is not None else None
    try:
        await hub.ask(run, rank, "value", live | {"part": "layout", "previous": True})
    except OpscopeError:
        return None
    ranks = hub.facts(run)["ranks"]
    return next((int(found["step"]) - 1 for found in ranks if found["rank"] == rank), None)


def _other(library: Library, run: str, which: Which, against: Against) -> Which | None:
    if not against.other:
        return None
    step, rank = against.number("step"), against.number("rank")
    other = which if step is None else which.at_step(step)
    if rank is not None:
        other = other.on_rank(library.open(run).view(rank))
    if not other.is_held:
        other.array()
    return other
