"""OO: an operator that turns sound inputs into NaN or Inf; see `opscope.judge.overflows`."""

from __future__ import annotations

from opscope.judge.condition import TENSOR, Condition

OPERATOR_OVERFLOW = Condition(
    "OO",
    "operator_overflow",
    TENSOR,
    "an operator turns sound inputs into NaN or Inf",
    nonfinite=True,
)
