"""Checking watchpoints on the latest step of a training again, with the values that it keeps."""

from __future__ import annotations

import asyncio
from typing import Any

from opscope.analysis.scope import Kept, KeptChange, KeptCount
from opscope.judge.evidence import counts_range, ends_of, tolerance_of
from opscope.judge.outcome import NO_VALUES, REASONS
from opscope.judge.watch_orders import watch_of
from opscope.judge.watch_set import WatchSet
from opscope.server.hub import Hub
from opscope.server.library import Library, LibraryEntry
from opscope.stats.two_tensors import Difference

_NOT_KEPT = "value not kept"


async def check_again(hub: Hub, library: Library, run: str, watch: Any, given: Any) -> Any:
    """Check watchpoints on a given step, or on the latest one, without running the training."""
    chosen = watch_of(watch)
    await hub.catch_up(run)
    opened = await asyncio.to_thread(library.open, run)
    await asyncio.to_thread(opened.refresh, True)
    step = given if isinstance(given, int) else _current(hub, run, opened)
    kept = await _kept(hub, run, chosen, step)
    return await asyncio.to_thread(_check, opened, chosen, step, kept)


def _current(hub: Hub, run: str, opened: LibraryEntry) -> int:
    """The step that a training holds in, which may not have ended, or the latest recorded."""
    held = [each.step for each in hub.trainings(run).values() if each.is_held]
    return min(held) if held else max(opened.reader.steps, default=0)


async def _kept(hub: Hub, run: str, watch: WatchSet, step: int) -> dict[int, Kept]:
    """By rank: what the watchpoints ask of the values that it keeps."""
    ranges = sorted({ends_of(each) for each in watch.enabled if counts_range(each)})
    changes = [each for each in watch.enabled if each.condition.needs_change]
    tolerances = sorted({tolerance_of(each.params) for each in changes})
    return {
        rank: Kept(
            await _counts(hub, run, rank, step, ranges),
            await _changes(hub, run, rank, step, tolerances),
        )
        for rank in (hub.connected(run) if ranges or tolerances else ())
    }


async def _counts(
    hub: Hub, run: str, rank: int, step: int, ranges: list[tuple[float, float]]
) -> dict[KeptCount, int]:
    """Count the elements of kept values in ranges."""
    if not ranges:
        return {}
    answer = await hub.ask(run, rank, "count", {"step": step, "ranges": ranges})
    return {
        (step, call, str(io), slot, *ranges[place]): count
        for call, io, slot, place, count in answer
    }


async def _changes(
    hub: Hub, run: str, rank: int, step: int, tolerances: list[tuple[float, float, bool]]
) -> dict[KeptChange, Difference]:
    """Return the distance of the parameters that a step used from those of the step before."""
    if not tolerances:
        return {}
    answer = await hub.ask(run, rank, "changes", {"step": step, "tolerances": tolerances})
    return {
        (step, name, (rtol, atol, bool(equal))): _difference(*numbers)
        for name, (rtol, atol, equal), numbers in answer
    }


def _difference(mean: Any, mean_abs: Any, largest: Any, *counts: int) -> Difference:
    """A difference as it came; what is not finite comes as text."""
    return Difference(float(mean), float(mean_abs), float(largest), *counts)


def _check(
    opened: LibraryEntry, watch: WatchSet, step: int, kept: dict[int, Kept]
) -> dict[str, Any]:
    found = opened.reader.check(watch, steps=[step], kept=kept).to_json()
    for each in found["unchecked"]:
        if each["reason"] == REASONS[NO_VALUES]:
            each["reason"] = _NOT_KEPT
    return {"step": step, **found}
