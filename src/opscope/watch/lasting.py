"""Conditions that must hold for some steps in a row before they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opscope.watch.hits import Hit
from opscope.watch.watchpoint import Watchpoint


def needed_steps(watchpoint: Watchpoint) -> int:
    """In how many steps in a row a value must hit; 1 for most conditions."""
    lasts = watchpoint.condition.abbr in ("AD", "AS")
    return int(watchpoint.params.get("steps_ge", 1)) if lasts else 1


def lasting(hits: Iterable[Hit], steps: Mapping[int, Sequence[int]]) -> Iterator[Hit]:
    """The hits that have lasted long enough; `steps` are the recorded ones by rank, in order."""
    places = {rank: {step: place for place, step in enumerate(s)} for rank, s in steps.items()}
    runs: dict[tuple[int, int, int, int], tuple[int, int]] = {}
    for hit in sorted(hits, key=lambda hit: hit.step):
        needed = needed_steps(hit.watchpoint)
        if needed <= 1 or hit.node is None:
            yield hit
            continue
        key = hit.rank, hit.watchpoint.id, hit.node.id, hit.slot
        place = places.get(hit.rank, {}).get(hit.step, hit.step)
        last, count = runs.get(key, (-2, 0))
        count = count + 1 if place == last + 1 else 1
        runs[key] = place, count
        if count >= needed:
            yield hit
