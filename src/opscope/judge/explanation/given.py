"""A number that is no tensor, such as the value to fill with, is NaN or Inf itself."""

from __future__ import annotations

import re

from opscope.judge.explanation.case import Case, Explanation

_FILLING = ("fill", "full", "pad", "scatter", "index_put", "scalar_tensor")
_ARITHMETIC = ("add", "sub", "rsub", "mul", "div", "lerp", "addcmul", "addcdiv", "where")


def given(case: Case) -> Explanation | None:
    fills = any(part in case.op for part in _FILLING)
    found = _named(case, r"nan")
    if not found and (fills or case.op in _ARITHMETIC):
        found = _named(case, r"-?inf")
    if not found:
        return None
    number = "NaN" if "nan" in found[0] else "Inf"
    asked = "was asked to fill with" if fills else "was given the number"
    return Explanation(
        f"{case.node.op_type} {asked} {number} ({', '.join(found)}) → {case.bad}",
        "look at where that number comes from: it was there before this operator ran",
    )


def _named(case: Case, number: str) -> list[str]:
    """The arguments in whose text a number stands."""
    pattern = re.compile(rf"(?<![\w.]){number}(?![\w.])")
    return [f"{name}={text}" for name, text in case.node.arguments.items() if pattern.search(text)]
