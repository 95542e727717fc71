"""A report that is called sound can be shown; one that lacks what is shown is not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from opscope.record.ranks import compare
from opscope.record.render_html import render_html
from opscope.record.render_text import render_markdown, render_terminal
from opscope.record.report_form import is_sound

SOURCE = {"file": "/train.py", "line": 3, "function": "f", "code": "x.log()", "called_from": []}
OPERATOR = {
    "name": "Default/log-op0",
    "scope": "Default",
    "phase": "forward",
    "step": 2,
    "finished": True,
    "raised": False,
    "sequence": 7,
    "thread": 0,
    "seconds": 1e-6,
    "source": SOURCE,
}
TENSOR = {"name": "x", "dtype": "float32", "shape": [2, 3], "digest": "ab"}
REPORT: dict[str, Any] = {
    "format": 1,
    "rank": 0,
    "world_size": 2,
    "pid": 12,
    "host": "here",
    "cause": "exception",
    "cause_text": "an exception",
    "step": 2,
    "started": 1.7e9,
    "last_time": 1.7e9,
    "silent_seconds": 2.5,
    "last_op": OPERATOR,
    "source": SOURCE,
    "device_window": {"completed": 5, "launched": 7},
    "last_operators": [OPERATOR, OPERATOR | {"seconds": None, "source": None}],
    "collectives": {"": {"number": 1, "name": "all_reduce", "left": False, "source": SOURCE}},
    "steps": [
        {"step": 1, "loss": 0.5, "rss": 1 << 20, "seconds": 0.1, "statistics": {"largest": 2.0}},
        {"step": 2, "loss": ["NaN", 1.0], "rss": 2 << 20, "batch": [TENSOR]},
    ],
    "exception": {
        "type": "ValueError",
        "message": "bad",
        "traceback": "Traceback",
        "frames": [{"file": "a", "line": 1, "function": "f", "tensors": {"x": {"dtype": "b"}}}],
    },
    "facts": {"command": ["a", "b"], "versions": {"torch": "2"}, "environment": {"A": "b"}},
}
OTHERS: tuple[Any, ...] = (None, "text", 7, 1e300, float("nan"), [], {}, [None], {"a": None}, True)


def places(part: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything in a report."""
    keys = range(len(part)) if isinstance(part, list) else part if isinstance(part, dict) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *rest) for rest in places(part[key]))


def changed(place: tuple[Any, ...], *other: Any) -> dict[str, Any]:
    """Return the report with something else at a place, or with nothing there."""
    report = copy.deepcopy(REPORT)
    around: Any = report
    for key in place[:-1]:
        around = around[key]
    if other:
        (around[place[-1]],) = other
    else:
        del around[place[-1]]
    return report


def show(report: dict[str, Any]) -> None:
    both = compare([report, REPORT | {"rank": 1}])
    render_terminal(both)
    render_html(both, {})
    render_markdown(both, {})


def test_a_whole_report_is_sound() -> None:
    assert is_sound(REPORT)
    show(REPORT)


@pytest.mark.parametrize("name", sorted(set(REPORT) - {"format"}))
def test_a_report_without_a_part_is_not(name: str) -> None:
    assert not is_sound({key: value for key, value in REPORT.items() if key != name})


@pytest.mark.parametrize("name", ["last_op", "source", "device_window", "exception"])
def test_some_parts_may_be_nothing(name: str) -> None:
    report = REPORT | {name: None}
    assert is_sound(report)
    show(report)


def test_whatever_is_called_sound_can_be_shown() -> None:
    sound = 0
    for place in places(REPORT):
        for report in (changed(place), *(changed(place, other) for other in OTHERS)):
            if is_sound(report):
                show(report)
                sound += 1
    assert sound > 100
