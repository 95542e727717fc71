"""One way to ask for a part of an array: by a name and plain arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opscope.arrays.differences import compared
from opscope.arrays.extremes import places
from opscope.arrays.histograms import histogram
from opscope.arrays.numbers import Array, Data
from opscope.arrays.picked import Picked, Tolerance
from opscope.arrays.pictures import Kind, pictures
from opscope.arrays.summaries import along, spread, statistics
from opscope.arrays.tiles import Window, block, slice_of, tile
from opscope.errors import OpscopeError

QuestionArguments = Mapping[str, Any]
_USUAL_SIDE = 200


def look(array: Array, part: str, args: QuestionArguments, before: Array | None = None) -> Data:
    """A part of an array, or of its difference to another."""
    if part not in PARTS:
        raise OpscopeError(f"{part} is no part; there are {', '.join(PARTS)}")
    tolerance = Tolerance(_number(args, "rtol"), _number(args, "atol"))
    picked = Picked(array, str(args.get("index", "")), whole(args, "fold", 0), before, tolerance)
    return PARTS[part](picked, args)


def whole(args: QuestionArguments, name: str, usual: int | None = None) -> int:
    """A whole number among arguments."""
    value = args.get(name)
    value = usual if value is None else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise OpscopeError(f"{name} must be a whole number")
    return value


def _number(args: QuestionArguments, name: str) -> float:
    value = args.get(name) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise OpscopeError(f"{name} must be a number of at least 0")
    return float(value)


def _window(args: QuestionArguments) -> Window:
    height, width = args.get("height"), args.get("width")
    return Window(
        whole(args, "top", 0),
        whole(args, "left", 0),
        None if height is None else whole(args, "height"),
        None if width is None else whole(args, "width"),
    )


def _kind(args: QuestionArguments) -> Kind:
    numbers = (whole(args, name) for name in ("total", "height", "width", "colours"))
    return Kind(str(args.get("kind", "")), *numbers)


def _tile(picked: Picked, args: QuestionArguments) -> Data:
    sides = whole(args, "rows", _USUAL_SIDE), whole(args, "columns", _USUAL_SIDE)
    return tile(picked, *sides, _window(args))


def _along(picked: Picked, args: QuestionArguments) -> Data:
    return along(picked, whole(args, "axis", 0), whole(args, "first", 0), whole(args, "count", 100))


PARTS: dict[str, Callable[[Picked, QuestionArguments], Data]] = {
    "facts": lambda picked, args: {
        "dtype": str(picked.dtype),
        "shape": list(picked.shape),
        "places": places(picked),
    },
    "layout": lambda picked, args: picked.layout(),
    "slice": lambda picked, args: slice_of(picked),
    "block": lambda picked, args: block(picked, _window(args)),
    "tile": _tile,
    "histogram": lambda picked, args: histogram(
        picked, whole(args, "bins", 60), bool(args.get("log"))
    ),
    "statistics": lambda picked, args: statistics(picked),
    "spread": lambda picked, args: spread(picked),
    "along": _along,
    "places": lambda picked, args: places(picked),
    "compared": lambda picked, args: compared(picked),
    "pictures": lambda picked, args: pictures(
        picked, _kind(args), whole(args, "first", 0), whole(args, "count", 32)
    ),
}
"""The questions that can be asked."""
