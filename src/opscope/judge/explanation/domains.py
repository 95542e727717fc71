"""Functions that are given what they are not defined for: log, sqrt, acos and their like."""

from __future__ import annotations

import math

from opscope.events import Node, Output
from opscope.judge.explanation.case import Case, Explanation, shown
from opscope.judge.selection import base_type

_ROUNDING = 1e-2
"""By more than this, of the largest input, rounding makes nothing negative."""
_UNDERFLOWS = {
    "sum": ("sum", "torch.logsumexp of the logarithms in place of the log of a sum"),
    "mean": ("mean", "torch.logsumexp(x, dim) - log(n) in place of the log of a mean"),
    "prod": ("product", "the sum of the logarithms in place of the log of a product"),
    "cumprod": ("product", "torch.cumsum of the logarithms in place of the log of a product"),
    "exp": ("exponential", "leave out both exp and log"),
}
"""The operators whose result may be exactly 0 though none of their inputs is."""


def logarithm(case: Case) -> Explanation | None:
    if case.op not in ("log", "log2", "log10", "log1p", "xlogy", "special_xlog1py"):
        return None
    row = case.input(1 if case.op in ("xlogy", "special_xlog1py") else 0)
    edge = -1.0 if "log1p" in case.op else 0.0
    if row is None:
        return None
    if row.min < edge:
        below = "a negative number" if not edge else f"a number below {edge:g}"
        return Explanation(
            f"{case.op} of {below} → {case.bad}; input min is {shown(row.min)}",
            f"the input of {case.op} must be above {edge:g}: clamp it, or check how it got there",
        )
    before = _maker(case.node)
    made = _UNDERFLOWS.get(base_type(before)) if before is not None else None
    if made is not None and before is not None and made[0] in ("sum", "mean"):
        made = made if _is_of_exponentials(before) else None
    if made is not None and case.op == "log":
        return Explanation(
            f"log of 0 → {case.bad}; the {made[0]} before it has run down to {shown(row.min)}",
            f"compute in logarithms throughout: {made[1]}",
        )
    least = "1e-6" if case.is_half else "1e-8"  # of which float16 makes 0
    clamped = f"torch.{case.op}(x.clamp_min({least}))"
    if edge:
        clamped = f"torch.{case.op}(x.clamp_min(-1 + 1e-6))"
    elif case.op == "xlogy":
        clamped = f"torch.xlogy(x, y.clamp_min({least}))"
    return Explanation(
        f"{case.op} of {edge:g} → {case.bad}; input min is {shown(row.min)}",
        f"clamp the input, {clamped}, or use log_softmax, logsigmoid",
    )


def _maker(node: Node) -> Node | None:
    """The operator that made the first input of another one."""
    source = node.sources[0] if node.sources else None
    return source.node if isinstance(source, Output) else None


def _is_of_exponentials(node: Node) -> bool:
    """Tell whether exponentials are summed, perhaps with weights."""
    for source in node.sources:
        of = source.node if isinstance(source, Output) else None
        if of is None:
            continue
        inner = [each.node for each in of.sources if isinstance(each, Output)]
        if any(base_type(each) == "exp" for each in (of, *(inner if of.op_type == "mul" else ()))):
            return True
    return False


def logit(case: Case) -> Explanation | None:
    row = case.input(0)
    if case.op != "logit" or row is None:
        return None
    inside = row.min >= 0 and row.max <= 1
    what = "of 0 or 1" if inside else "outside its range [0, 1]"
    return Explanation(
        f"logit {what} → {case.bad}; input is from {shown(row.min)} to {shown(row.max)}",
        "clamp the input away from 0 and 1: torch.logit(x, eps=1e-6)",
    )


def root(case: Case) -> Explanation | None:
    if case.op not in ("sqrt", "rsqrt"):
        return None
    row = case.input(0)
    if row is None:
        return None
    if row.min < -_ROUNDING * max(1.0, abs(row.max)):
        return Explanation(
            f"{case.op} of a negative number → {case.bad}; input min is {shown(row.min)}",
            f"the input of {case.op} must not be negative: check how it got there (a difference, a "
            "whole number that wraps round), and clamp it, x.clamp_min(0), if it may be",
        )
    if row.min < 0:
        return Explanation(
            f"{case.op} of a negative number → {case.bad}; input min is {shown(row.min)}",
            "rounding can make a variance negative: clamp it, torch.sqrt(x.clamp_min(0) + eps)",
        )
    return Explanation(
        f"{case.op} of 0 → {case.bad}; input min is {shown(row.min)}",
        f"add a small eps inside: torch.{case.op}(x + eps)",
    )


_DOMAINS = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, float("inf")),
    "erfinv": (-1, 1),
}


def domain(case: Case) -> Explanation | None:
    row = case.input(0)
    if case.op not in _DOMAINS or row is None:
        return None
    low, high = _DOMAINS[case.op]
    clamped = f"x.clamp({low} + eps, {high} - eps)" if high < math.inf else f"x.clamp_min({low})"
    return Explanation(
        f"{case.op} outside its range [{low}, {high}] → {case.bad}; input is from {shown(row.min)} "
        f"to {shown(row.max)}",
        f"clamp the input: {clamped}; rounding alone can leave the range",
    )
