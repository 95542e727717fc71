"""Checking watchpoints on the latest step of a training again, with the values that it keeps."""

from __future__ import annotations

import asyncio
from typing import Any

from opscope.analysis.scope import Counts
from opscope.judge.evidence import counts_range, ends_of
from opscope.judge.outcome import NO_VALUES, REASONS
from opscope.judge.watch_orders import watch_of
from opscope.judge.watch_set import WatchSet
from opscope.server.hub import Hub
from opscope.server.library import Library, Opened

_NOT_KEPT = "value not kept"


async def check_again(hub: Hub, library: Library, run: str, watch: Any, given: Any) -> Any:
    """Check watchpoints on a given step, or on the latest one, without running the training."""
    chosen = watch_of(watch)
    await hub.catch_up(run)
    opened = await asyncio.to_thread(library.open, run)
    await asyncio.to_thread(opened.refresh, True)
    step = given if isinstance(given, int) else _current(hub, run, opened)
    counts = await _counts(hub, run, chosen, step)
    return await asyncio.to_thread(_check, opened, chosen, step, counts)


def _current(hub: Hub, run: str, opened: Opened) -> int:
    """The step that a training holds in, which may not have ended, or the latest recorded."""
    held = [each.step for each in hub.trainings(run).values() if each.is_held]
    return min(held) if held else max(opened.reader.steps, default=0)


async def _counts(hub: Hub, run: str, watch: WatchSet, step: int) -> dict[int, Counts]:
    """By rank: how many elements of kept values are in the ranges that watchpoints ask for."""
    ranges = sorted({ends_of(each) for each in watch.enabled if counts_range(each)})
    if not ranges:
        return {}
    found: dict[int, Counts] = {}
    for rank in hub.connected(run):
        answer = await hub.ask(run, rank, "count", {"step": step, "ranges": ranges})
        found[rank] = {
            (step, call, str(io), slot, *ranges[place]): count
            for call, io, slot, place, count in answer
        }
    return found


def _check(opened: Opened, watch: WatchSet, step: int, counts: dict[int, Counts]) -> dict[str, Any]:
    found = opened.reader.check(watch, steps=[step], counts=counts).to_json()
    for each in found["unchecked"]:
        if each["reason"] == REASONS[NO_VALUES]:
            each["reason"] = _NOT_KEPT
    return {"step": step, **found}
