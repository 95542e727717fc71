"""The conditions there are, for whoever sets watchpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opscope.judge.catalogue import CONDITIONS

if TYPE_CHECKING:
    from opscope.views.watch_answers import ConditionFacts


_WHAT = {
    "abs_mean": "mean |x|",
    "max_min": "max - min",
    "abs_mean_update_ratio": "mean |change| / mean |before|",
    "derivative": "mean derivative",
    "zero_percentage": "zeros",
    "range_percentage": "elements in the range",
    "deviations": "deviations above the median",
    "steps": "steps in a row",
    "range_start_inclusive": "range from",
    "range_end_inclusive": "range to",
    "rtol": "relative tolerance",
    "atol": "absolute tolerance",
    "equal_nan": "NaN equals NaN",
    "epsilon": "offset",
    "window": "steps looked back",
    "window_min": "steps needed at least",
}
_SIGNS = {"gt": ">", "lt": "<", "ge": "≥"}


def _words(name: str) -> str:
    """A parameter for people: `abs_mean_gt` is `mean |x| >`."""
    what, _, how = name.rpartition("_")
    if how not in _SIGNS:
        return _WHAT.get(name, name)
    return f"{_WHAT.get(what, what)} {_SIGNS[how]}"


def _unit(name: str) -> str:
    if "percentage" in name:
        return "%"
    return "steps" if name.startswith(("steps", "window")) else ""


def conditions() -> list[ConditionFacts]:
    """All conditions with their parameters."""
    return [
        {
            "abbr": condition.abbr,
            "id": condition.id,
            "target": condition.target,
            "summary": condition.summary,
            "nonfinite": condition.nonfinite,
            "parameters": [
                {
                    "name": parameter.name,
                    "words": _words(parameter.name),
                    "unit": _unit(parameter.name),
                    "low": parameter.low if math.isfinite(parameter.low) else None,
                    "high": parameter.high if math.isfinite(parameter.high) else None,
                    "default": parameter.default,
                    "allowed": parameter.allowed,
                    "is_threshold": not parameter.only_support,
                }
                for parameter in condition.parameters
            ],
        }
        for condition in CONDITIONS
    ]
