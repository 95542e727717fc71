"""Results that are too large for their data type."""

from __future__ import annotations

import math

from opscope.judge.explanation.case import LIMITS, Case, Explanation, shown

_LOG_LIMITS = {"float16": 11.09, "bfloat16": 88.7, "float32": 88.7, "float64": 709.7}


def power(case: Case) -> Explanation | None:
    if case.op not in ("pow", "float_power"):
        return None
    row = case.input(0)
    if row is None:
        return None
    if case.birth.bad.nan and row.min < 0:
        return Explanation(
            f"pow of a negative base with a fractional exponent → {case.bad}; base min is "
            f"{shown(row.min)}",
            "take the power of x.abs() or x.clamp_min(0)",
        )
    if row.zero and _exponent(case) < 0:
        return Explanation(
            f"pow of 0 with a negative exponent → {case.bad}; {row.zero} of {row.count} bases "
            "are 0",
            "add a small eps to the base",
        )
    if case.is_half:
        return None
    return Explanation(
        f"pow overflows {case.dtype} → {case.bad}; the largest base is "
        f"{shown(max(abs(row.min), abs(row.max)))}",
        "lower the exponent, or clamp or normalise the base",
    )


def _exponent(case: Case) -> float:
    """The exponent of a power; of many, the lowest."""
    row = case.input(1)
    if row is not None:
        return float(row.min)
    try:
        return float(case.node.arguments.get("exponent", ""))
    except ValueError:
        return math.nan


def exponential(case: Case) -> Explanation | None:
    if case.op not in ("exp", "exp2", "expm1", "sinh", "cosh", "logcumsumexp", "softplus"):
        return None
    row = case.input(0)
    if row is None:
        return None
    limit = _LOG_LIMITS.get(case.dtype, 88.7)
    base = "exp"
    if case.op == "exp2":
        base, limit = "exp2", limit / math.log(2)
    return Explanation(
        f"{case.op} overflows → {case.bad}; input max is {shown(row.max)}, {case.dtype} holds "
        f"{base}(x) up to x = {limit:.3g}",
        "subtract the maximum first (torch.logsumexp and softmax do), or clamp the input",
    )


def half_range(case: Case) -> Explanation | None:
    if not case.is_half:
        return None
    limit = LIMITS.get(case.dtype, 448.0)
    return Explanation(
        f"{case.node.op_type} leaves the range of {case.dtype} (±{limit:g}) → {case.bad}; the "
        f"largest input is {shown(case.largest)}",
        "use bfloat16, or keep this part in float32 (torch.autocast(enabled=False) around it), or "
        "scale the values down",
    )


_PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "baddbmm", "matmul", "mul", "add", "sub", "sum", "mean", "prod"),
        *("cumprod", "cumsum", "pow", "dot", "mv", "addmv", "convolution", "square", "var", "std"),
        *("linalg_vector_norm", "norm", "mse_loss", "addcmul", "lerp", "div", "rsub", "logsumexp"),
    )
)


def overflow(case: Case) -> Explanation | None:
    limit = LIMITS.get(case.dtype)
    if case.op not in _PRODUCTS or limit is None or case.largest < limit**0.4:
        return None
    advice = "lower the learning rate, clip gradients, or normalise: what it reads is huge"
    if not case.step:
        advice = "it is so before anything is learned: check the initialisation and the inputs"
    if case.op in ("cumprod", "prod"):
        advice = "add logarithms instead of multiplying: torch.cumsum(torch.log(x), ...)"
    return Explanation(
        f"{case.node.op_type} overflows {case.dtype} → {case.bad}; the largest input is "
        f"{shown(case.largest)}",
        advice,
    )
