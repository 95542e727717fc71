"""The form of the report on one rank: the parts that whoever shows it relies on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fits = Callable[[Any], bool]
"""Tells whether a part of a report is as it should be."""
_MOST = 1 << 53
_LAST_SECOND = 250_000_000_000
"""Later moments have no date."""


def is_sound(report: Mapping[str, Any]) -> bool:
    """Tell whether a report has every part that is shown of one."""
    return _RANK(report)


def _text(part: Any) -> bool:
    return isinstance(part, str)


def _truth(part: Any) -> bool:
    return isinstance(part, bool)


def _number(part: Any) -> bool:
    return isinstance(part, int | float) and not isinstance(part, bool) and -_MOST < part < _MOST


def _count(part: Any) -> bool:
    return isinstance(part, int) and _number(part)


def _moment(part: Any) -> bool:
    return _number(part) and 0 <= part < _LAST_SECOND


def _maybe(fits: Fits) -> Fits:
    return lambda part: part is None or fits(part)


def _each(fits: Fits) -> Fits:
    return lambda part: isinstance(part, list) and all(map(fits, part))


def _each_of(fits: Fits) -> Fits:
    return lambda part: isinstance(part, dict) and all(map(fits, part.values()))


def _having(parts: Mapping[str, Fits], may_lack: Mapping[str, Fits] | None = None) -> Fits:
    """Ask for an object with these parts, and with those that it may lack as they should be."""
    optional = (may_lack or {}).items()
    return lambda part: (
        isinstance(part, dict)
        and all(name in part and fits(part[name]) for name, fits in parts.items())
        and all(fits(part[name]) for name, fits in optional if name in part)
    )


_SOURCE = _having({"file": _text, "line": _count, "function": _text, "code": _text})
_OPERATOR = _having(
    {
        **dict.fromkeys(("name", "phase", "scope"), _text),
        **dict.fromkeys(("sequence", "step", "thread"), _count),
        **dict.fromkeys(("raised", "finished"), _truth),
        "seconds": _maybe(_number),
        "source": _maybe(_SOURCE),
    }
)
_COLLECTIVE = _having({"number": _count, "name": _text, "left": _truth, "source": _maybe(_SOURCE)})
_TENSOR = _having(dict.fromkeys(("name", "dtype", "shape"), lambda part: True))
_STEP = _having(
    {},
    {
        **dict.fromkeys(("rss", "allocated", "peak"), _maybe(_number)),
        "batch": _maybe(_each(_TENSOR)),
    },
)
_FRAME = _having(
    {"file": _text, "line": _maybe(_count), "function": _text, "tensors": _each_of(_having({}))}
)
_EXCEPTION = _having({"type": _text, "message": _text, "traceback": _text, "frames": _each(_FRAME)})
_FACTS = _having({}, {"command": _each(_text), "versions": _having({}), "environment": _having({})})
_RANK = _having(
    {
        **dict.fromkeys(("rank", "world_size", "pid", "step"), _count),
        **dict.fromkeys(("host", "cause", "cause_text"), _text),
        **dict.fromkeys(("started", "last_time"), _moment),
        "silent_seconds": _maybe(_number),
        "last_op": _maybe(_OPERATOR),
        "source": _maybe(_SOURCE),
        "device_window": _maybe(_having({"completed": _count, "launched": _count})),
        "last_operators": _each(_OPERATOR),
        "collectives": _each_of(_COLLECTIVE),
        "steps": _each(_STEP),
        "exception": _maybe(_EXCEPTION),
        "facts": _FACTS,
    }
)
