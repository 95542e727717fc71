"""EX: an expression over the statistics of a value is true."""

from __future__ import annotations

import numpy as np

from opscope.judge.condition import TENSOR, Condition
from opscope.judge.expressions import NAMES, Expression, parse_expression, parse_number
from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import (
    BOTH_INFINITIES,
    CHECKED,
    EMPTY,
    ONLY_NAN,
    SAME_INFINITY,
    Outcome,
    Params,
)

EXPRESSION = Condition(
    "EX",
    "expression",
    TENSOR,
    "an expression over statistics is true, such as max > 10 and zero_share < 0.5; it is written "
    f"in place of the condition, over {', '.join(NAMES)}",
)
"""The entry of the catalogue; each watchpoint has one of its own, with its expression."""


def condition_of(text: str) -> Condition:
    """The condition that a text is true; an error says what is wrong with the text."""
    expression = parse_expression(text)

    def check(n: NumberColumns, params: Params) -> Outcome:
        return _check(expression, n)

    return Condition(
        EXPRESSION.abbr, EXPRESSION.id, TENSOR, expression.text, check, expression=expression.text
    )


def measuring(text: str) -> Condition:
    """A condition that every value meets, with the number that a text makes of it as `text`."""
    number = parse_number(text)

    def check(n: NumberColumns, params: Params) -> Outcome:
        with np.errstate(all="ignore"):
            found = number(n)
        exists = ~np.isnan(found) & (n.count > 0)
        return Outcome(exists, np.zeros(len(n), np.uint8), {text: found})

    asked = f"{text} == {text}"
    return Condition(EXPRESSION.abbr, EXPRESSION.id, TENSOR, asked, check, expression=asked)


def _check(expression: Expression, n: NumberColumns) -> Outcome:
    actual = expression.actual(n)
    hits = expression.holds(n) & (n.count > 0)
    reasons = np.zeros(len(n), np.uint8)
    for name, column in actual.items():
        why = SAME_INFINITY if name == "range" else BOTH_INFINITIES
        reasons = np.where(np.isnan(column), why, reasons)
    reasons = np.where((reasons != CHECKED) & (n.nan == n.count), ONLY_NAN, reasons)
    reasons = np.where(n.count == 0, EMPTY, np.where(hits, CHECKED, reasons))
    return Outcome(hits, reasons.astype(np.uint8), actual)
