"""TO, WO, GE: any NaN or Inf at all."""

from __future__ import annotations

from opscope.judge.condition import GRADIENT, TENSOR, WEIGHT, Condition
from opscope.judge.numbers import Numbers
from opscope.judge.outcome import Outcome, Params, certain


def overflow(n: Numbers, params: Params) -> Outcome:
    """Find values that hold NaN or Inf."""
    return certain(n.bad > 0, nan=n.nan, inf=n.infinite)


TENSOR_OVERFLOW = Condition(
    "TO", "tensor_overflow", TENSOR, "a tensor holds NaN or Inf", overflow, nonfinite=True
)
WEIGHT_OVERFLOW = Condition(
    "WO", "weight_overflow", WEIGHT, "a weight holds NaN or Inf", overflow, nonfinite=True
)
GRADIENT_EXPLODING = Condition(
    "GE", "gradient_exploding", GRADIENT, "a gradient holds NaN or Inf", overflow, nonfinite=True
)
