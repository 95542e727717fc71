"""The last operators of all ranks on one clock, by threads, streams and groups of collectives.

A ring has tens of thousands of operators and a screen has a thousand columns: what is shorter than
a column is put together with its neighbours there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from opscope.native import shared
from opscope.read.recorded import Recorded, RecordedRank
from opscope.record.reading import DEVICES, PHASES, RingReader

if TYPE_CHECKING:
    from opscope.views.recording_answers import (
        Boxes,
        NeverEntered,
        RankTimeline,
        StepMark,
        Timeline,
        TimelineLane,
    )

_MOST_LANES = 16
"""So many threads and streams of a rank are shown: those that ran last."""
_MOST_STEPS = 200
_LONGEST_NS = 5_000_000_000
"""At first the last two steps are shown, but no more than this."""
_SHORTEST_NS = 200_000
_AFTER = 0.12
"""The room after the last operator for what is in flight, as a share."""
_FAR_NS = 1 << 61
_CUDA = 1
_MAIN, _THREAD, _STREAM, _GROUP = range(4)
_KINDS = ("main", "thread", "stream", "group")
_STATES = ("finished", "raised", "flight")
_RAISED, _FLIGHT = 1, 2

Integers = NDArray[np.int64]


class _Key(NamedTuple):
    """The subject of a row: a thread, a stream of a device, or the collectives of a group."""

    kind: int
    thread: int
    device: int
    number: int


@dataclass(frozen=True)
class _Times:
    """The records of one rank, in nanoseconds on the clock of all."""

    rank: RecordedRank
    ring: RingReader
    records: NDArray[np.void]
    start: Integers
    end: Integers
    """0 for what is in flight."""

    @cached_property
    def last(self) -> int:
        """The time at which an operator was seen last."""
        return int(max(self.start.max(), self.end.max()))

    @cached_property
    def steps(self) -> tuple[Integers, Integers]:
        """The steps there are, and when each begins."""
        steps, first = np.unique(self.records["step"], return_index=True)
        return steps.astype(np.int64), self.start[first]

    @cached_property
    def lanes(self) -> list[tuple[_Key, Integers]]:
        """The rows, in the order of their first operator, each with the places of its records."""
        return _lanes(self)


@dataclass(frozen=True)
class _Window:
    start: int
    end: int
    column: float
    horizon: int
    """The time up to which operators in flight are drawn."""


_KNOWN: WeakKeyDictionary[Recorded, list[_Times]] = WeakKeyDictionary()
"""As one comes closer, the same recording is asked about again and again."""


def timeline(recorded: Recorded, start: int | None, end: int | None, columns: int) -> Timeline:
    """The operators of a stretch of time, the last two steps unless told."""
    ranks = _KNOWN.get(recorded)
    if ranks is None:
        ranks = _KNOWN[recorded] = _on_one_clock(recorded)
    if not ranks:
        return {"first": 0, "last": 1, "start": 0, "end": 1, "began": 0, "ranks": []}
    ended = max(each.last for each in ranks)
    began = max(0, min(max(_began(each), ended - _LONGEST_NS) for each in ranks))
    span = max(ended - began, _SHORTEST_NS)
    last = ended + int(span * _AFTER)
    shown = (began if start is None else start), (last if end is None else end)
    left, right = min(shown), max(*shown, min(shown) + 1)
    window = _Window(left, right, (right - left) / columns, last)
    return {
        "first": 0,
        "last": last,
        "start": left,
        "end": right,
        "began": began,
        "ranks": [_rank(each, ranks, recorded, window) for each in ranks],
    }


def _on_one_clock(recorded: Recorded) -> list[_Times]:
    """All ranks that have records; 0 is the first operator of any."""
    found = [(each, each.ring) for each in recorded.ranks if each.ring is not None]
    kept = [(rank, ring, known) for rank, ring in found if len(known := _plausible(ring))]
    firsts = [int(records["start"].min()) + _shift(ring) for _, ring, records in kept]
    origin = min(firsts, default=0)
    made = []
    for rank, ring, records in kept:
        start, end = (records[name].astype(np.int64) for name in ("start", "end"))
        shift = _shift(ring) - origin
        made.append(_Times(rank, ring, records, start + shift, np.where(end > 0, end + shift, 0)))
    return made


def _plausible(ring: RingReader) -> NDArray[np.void]:
    """Records whose times can be; a damaged file may have others."""
    records = ring.records
    start, end = records["start"], records["end"]
    kept: NDArray[np.void] = records[
        (start < _FAR_NS) & (end < _FAR_NS) & ((end == 0) | (end >= start))
    ]
    return kept


def _shift(ring: RingReader) -> int:
    """From the clock of a process to nanoseconds since the epoch."""
    return min(ring.number("started_real"), _FAR_NS) - min(ring.number("started_mono"), _FAR_NS)


def _began(times: _Times) -> int:
    """Return the time at which the step before the last begins."""
    return int(times.steps[1][-2:][0])


def _rank(times: _Times, ranks: list[_Times], recorded: Recorded, window: _Window) -> RankTimeline:
    latest = sorted(int(places[-1]) for _, places in times.lanes)[-_MOST_LANES:]
    shown = [lane for lane in times.lanes if int(lane[1][-1]) >= latest[0]]
    return {
        "place": times.rank.place,
        "rank": times.rank.number,
        "lanes": [_lane(times, key, places, window) for key, places in shown],
        "hidden": len(times.lanes) - len(shown),
        "ended": times.last,
        "completed": _completed(times),
        "steps": _step_marks(times, window),
        "never": _never(times.rank, ranks, recorded),
    }


def _lanes(times: _Times) -> list[tuple[_Key, Integers]]:
    records = times.records
    collective = (records["flags"] & shared.COLLECTIVE) != 0
    on_device = ~collective & (records["device"] == _CUDA) & (records["bytes"] > 0)
    main = np.where(records["thread"] == times.ring.pid, _MAIN, _THREAD)
    kind = np.where(collective, _GROUP, np.where(on_device, _STREAM, main)).astype(np.int64)
    thread = np.where(collective, 0, records["thread"]).astype(np.int64)
    device = np.where(on_device, records["device_index"], 0).astype(np.int64)
    number = np.where(collective, records["group"], np.where(on_device, records["stream"], 0))
    keys = ((kind << 56 | thread << 24) | (device & 0xFF) << 16) | number
    found, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.lexsort((first, found >> 56 == _GROUP))
    by_lane = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[by_lane], np.arange(len(found) + 1))
    return [
        (
            _Key(key >> 56, key >> 24 & 0xFFFFFFFF, key >> 16 & 0xFF, key & 0xFFFF),
            by_lane[ends[lane] : ends[lane + 1]],
        )
        for lane, key in zip(order.tolist(), found[order].tolist(), strict=True)
    ]


def _lane(times: _Times, key: _Key, places: Integers, window: _Window) -> TimelineLane:
    kind, thread, device, number = key
    names = times.ring.names
    return {
        "kind": _KINDS[kind],
        "thread": thread,
        "device": f"{DEVICES[_CUDA]}:{device}" if kind == _STREAM else "",
        "stream": number if kind == _STREAM else 0,
        "group": names.of(shared.NAME_GROUP, number) if kind == _GROUP else "",
        "operators": len(places),
        "boxes": _boxes(times, places, window),
    }


def _boxes(times: _Times, places: Integers, window: _Window) -> Boxes:
    """The operators of a row within the window; short ones together."""
    start, end = times.start[places], times.end[places]
    shown = (start <= window.end) & ((end >= window.start) | (end == 0))
    places, start, end = places[shown], start[shown], end[shown]
    if not len(places):
        return _answer(times.ring, _Merged(*[np.empty(0, np.int64)] * 8))
    records, in_flight = times.records[places], end == 0
    raised = (records["flags"] & shared.RAISED) != 0
    state = np.where(in_flight, _FLIGHT, np.where(raised, _RAISED, 0))
    end = np.where(in_flight, np.maximum(window.horizon, start), end)
    return _answer(times.ring, _merged(_Row(records, start, end, state), window))


@dataclass(frozen=True)
class _Row:
    """The operators to be drawn in a row."""

    records: NDArray[np.void]
    start: Integers
    end: Integers
    state: Integers


class _Merged(NamedTuple):
    """The columns of boxes."""

    sequence: Integers
    size: Integers
    start: Integers
    end: Integers
    busy: Integers
    phase: Integers
    state: Integers
    op: Integers
    """-1 for several."""


def _merged(row: _Row, window: _Window) -> _Merged:
    """Put together what is shorter than a column and begins in the same one."""
    column = np.maximum(0, (row.start - window.start) / window.column).astype(np.int64)
    is_short = (row.end - row.start < window.column) & (row.state == 0)
    group = np.where(is_short, column, -1 - np.arange(len(column)))
    order = np.lexsort((row.start, group))
    cuts = np.flatnonzero(np.diff(group[order], prepend=np.iinfo(np.int64).min))
    records, length = row.records[order], (row.end - row.start)[order]
    count = np.diff(cuts, append=len(records))
    merged = _Merged(
        sequence=records["sequence"][cuts].astype(np.int64),
        size=count,
        start=np.minimum.reduceat(row.start[order], cuts),
        end=np.maximum.reduceat(row.end[order], cuts),
        busy=np.add.reduceat(length, cuts),
        phase=_longest_phase(records["phase"], length, cuts),
        state=np.maximum.reduceat(row.state[order], cuts),
        op=np.where(count == 1, records["op"][cuts].astype(np.int64), -1),
    )
    by_time = np.argsort(merged.start, kind="stable")
    return _Merged(*(column[by_time] for column in merged))


def _longest_phase(phase: NDArray[np.uint8], length: Integers, cuts: Integers) -> Integers:
    """The phase that most of the time of each group goes to."""
    phases = sorted(PHASES)
    shares = [np.add.reduceat(np.where(phase == each, length + 1, 0), cuts) for each in phases]
    longest: Integers = np.asarray(phases)[np.argmax(shares, axis=0)]
    return longest


def _answer(ring: RingReader, boxes: _Merged) -> Boxes:
    """Columns as lists, operators as places in a list of names."""
    is_one = boxes.op >= 0
    known, place = np.unique(boxes.op[is_one], return_inverse=True)
    names = np.full(len(boxes.op), -1)
    names[is_one] = place
    return {
        "sequence": boxes.sequence.tolist(),
        "count": boxes.size.tolist(),
        "start": boxes.start.tolist(),
        "end": boxes.end.tolist(),
        "busy": boxes.busy.tolist(),
        "phase": [PHASES[each] for each in boxes.phase.tolist()],
        "state": [_STATES[each] for each in boxes.state.tolist()],
        "name": names.tolist(),
        "names": [ring.op_type(each) for each in known.tolist()],
    }


def _completed(times: _Times) -> int | None:
    """Return the time at which the last operator was launched that a GPU is known to have run."""
    completed = times.ring.number("completed")
    at = int(np.searchsorted(times.records["sequence"], completed))
    known = completed and at < len(times.records)
    return int(times.start[at]) if known else None


def _step_marks(times: _Times, window: _Window) -> list[StepMark]:
    """Mark where steps begin within the window; none if there are too many to tell apart."""
    steps, at = times.steps
    inside = (at >= window.start) & (at <= window.end)
    if inside.sum() > _MOST_STEPS:
        return []
    return [
        {"step": int(step), "at": int(moment)}
        for step, moment in zip(steps[inside], at[inside], strict=True)
    ]


def _never(rank: RecordedRank, ranks: list[_Times], recorded: Recorded) -> list[NeverEntered]:
    """Collectives that others wait in and this rank has not entered."""
    found: list[NeverEntered] = []
    for missed in recorded.report["missing"]:
        if rank.number not in missed["missing"]:
            continue
        moments = [
            moment
            for each in ranks
            if each.rank.number in missed["waiting"]
            and (moment := _entered(each, missed["group"], missed["number"])) is not None
        ]
        if moments:
            about = {key: missed[key] for key in ("group", "number", "name")}
            found.append({**about, "at": min(moments)})  # type: ignore[typeddict-item]
    return found


def _entered(times: _Times, group: str, number: int) -> int | None:
    """Return the time at which a rank entered a collective."""
    records = times.records
    named = times.ring.names.by_kind.get(shared.NAME_GROUP, {})
    numbers = [key for key, name in named.items() if name == group]
    alike = np.isin(records["group"], [*numbers, *([0] if not group else [])])
    alike &= (records["flags"] & shared.COLLECTIVE) != 0
    alike &= records["collective"] == number
    return int(times.start[alike][-1]) if alike.any() else None
