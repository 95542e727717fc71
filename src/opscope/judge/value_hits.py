"""Hits of values, and of operators at fault, said in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from opscope.events import IO, Node
from opscope.judge.hits import Hit
from opscope.judge.numbers import NumberColumns
from opscope.judge.origin.birth import Birth
from opscope.judge.outcome import REASONS, Outcome
from opscope.judge.selection import base_type
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import INPUT

_WORDS = {
    "abs_mean": "mean |x|",
    "max_min": "max - min",
    "abs_mean_update_ratio": "mean |change| / mean |before|",
    "derivative": "the mean derivative",
}


class ValuePlace(NamedTuple):
    """The place and time of a value."""

    step: int
    rank: int
    node: Node
    io: IO
    slot: int
    call: int
    parameter: str = ""


def outcome_of(watchpoint: Watchpoint, numbers: NumberColumns, node: Node) -> Outcome:
    """Judge some values of a node by a watchpoint (or of many nodes, if it is not about one)."""
    condition = watchpoint.condition
    check = condition.check if condition.check_of is None else condition.check_of(base_type(node))
    assert check is not None
    return check(numbers, watchpoint.params)


def hits_of(
    watchpoint: Watchpoint, outcome: Outcome, records: np.ndarray, places: Mapping[int, ValuePlace]
) -> Iterator[Hit]:
    """The hits among some values; `places` tells where a hit is, by its position."""
    for index in np.flatnonzero(outcome.hits):
        place = places[int(index)]
        actual = {name: float(column[index]) for name, column in outcome.actual.items()}
        record = records[index]
        yield Hit(
            watchpoint,
            place.step,
            place.rank,
            _seen(watchpoint, actual),
            place.node,
            place.io,
            place.slot,
            place.call,
            place.parameter,
            {} if watchpoint.condition.nonfinite else actual,
            nan=int(record["nan"]),
            posinf=int(record["posinf"]),
            neginf=int(record["neginf"]),
            advice=watchpoint.condition.advice,
        )


def birth_hit(watchpoint: Watchpoint, birth: Birth, step: int, rank: int) -> Hit:
    """The hit of OO on an operator that made NaN or Inf, or first read what came in with them."""
    came = birth.entered
    return Hit(
        watchpoint,
        step,
        rank,
        birth.sentence,
        birth.node,
        IO.OUTPUT if came is None else IO.INPUT,
        birth.slot,
        birth.call,
        came.name if came is not None and came.kind == "parameter" else "",
        nan=birth.bad.nan,
        posinf=birth.bad.posinf,
        neginf=birth.bad.neginf,
    )


def _seen(watchpoint: Watchpoint, actual: Mapping[str, float]) -> str:
    """Say what is the matter, with threshold and actual number."""
    condition = watchpoint.condition
    if condition.nonfinite:
        parts = [
            f"{int(actual[k])} {w}" for k, w in (("nan", "NaN"), ("inf", "Inf")) if actual.get(k)
        ]
        return f"{condition.summary}: {', '.join(parts)}"
    if condition.expression:
        found = ", ".join(f"{name} {value:.6g}" for name, value in actual.items())
        return f"{condition.expression}: {found}"
    parts = [text for name, value in actual.items() if (text := _compared(watchpoint, name, value))]
    return " and ".join(parts) if parts else condition.summary


def _compared(watchpoint: Watchpoint, name: str, value: float) -> str:
    """One number against its threshold, if it passed it."""
    limit = watchpoint.params.get(name)
    what, _, how = name.rpartition("_")
    sign, passed = {
        "gt": ("above", lambda v, x: v > x),
        "lt": ("below", lambda v, x: v < x),
        "ge": ("at least", lambda v, x: v >= x),
    }.get(how, ("", lambda v, x: False))
    if limit is None or not passed(value, limit):
        return ""
    if what.endswith("_percentage"):
        of = "zero" if what.startswith("zero") else "in the range"
        return f"{value:.4g} % of the elements are {of}, {sign} {limit:g} %"
    return f"{_WORDS.get(what, what)} is {value:.6g}, {sign} {limit:g}"


def reason_text(code: int) -> str:
    """Say why a value could not be checked."""
    return REASONS[code]


def io_of(record: np.void) -> IO:
    """The side of its operator a row is on."""
    return IO.INPUT if record["io"] == INPUT else IO.OUTPUT
