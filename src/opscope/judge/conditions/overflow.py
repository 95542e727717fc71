"""TO, WO, GE: any NaN or Inf at all."""

from __future__ import annotations

from opscope.judge.condition import GRADIENT, TENSOR, WEIGHT, Condition
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Outcome, Params, certain


def overflow(n: NumberColumns, params: Params) -> Outcome:
    """Find values that hold NaN or Inf."""
    return certain(n.bad > 0, nan=n.nan, inf=n.infinite)


TENSOR_OVERFLOW = Condition(
    "TO",
    "tensor_overflow",
    TENSOR,
    "a tensor holds NaN or Inf",
    overflow,
    nonfinite=True,
    advice=(
        "look at the operator that made it, and at what that reads: --watch recommended "
        "gives a verdict"
    ),
)
WEIGHT_OVERFLOW = Condition(
    "WO",
    "weight_overflow",
    WEIGHT,
    "a weight holds NaN or Inf",
    overflow,
    nonfinite=True,
    advice="look at the update before, or at the checkpoint that it was loaded from",
)
GRADIENT_EXPLODING = Condition(
    "GE",
    "gradient_exploding",
    GRADIENT,
    "a gradient holds NaN or Inf",
    overflow,
    nonfinite=True,
    advice="look at the line it is the gradient of; clip gradients, or lower the learning rate",
)
