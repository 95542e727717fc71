"""Explains how an operator made NaN or Inf of sound numbers, and what helps: a rule per case."""

from __future__ import annotations

from opscope.judge.explanation.backward import backward
from opscope.judge.explanation.case import Case, Explanation, Rule, SeenValue, shown
from opscope.judge.explanation.division import division
from opscope.judge.explanation.domains import domain, logarithm, logit, root
from opscope.judge.explanation.given import given
from opscope.judge.explanation.normalisation import normalisation
from opscope.judge.explanation.nothing import ctc, deviation, empty_mean, ignored_labels
from opscope.judge.explanation.outside import entered, of_purpose, written_behind
from opscope.judge.explanation.overflow import exponential, half_range, overflow, power
from opscope.judge.explanation.update import optimizer

__all__ = ["Case", "Explanation", "SeenValue", "explain"]


def explain(case: Case) -> Explanation:
    """Return what the first rule says that fits; there is always one."""
    for rule in _RULES:
        found = rule(case)
        if found is not None:
            return found
    return anything(case)


def anything(case: Case) -> Explanation:
    ranges = [
        f"input {slot} is from {shown(known.row.min)} to {shown(known.row.max)}"
        for slot, known in enumerate(case.inputs)
        if known is not None and known.row.finite
    ]
    return Explanation(
        f"{case.node.op_type} turned sound inputs into {case.bad}"
        + (f"; {', '.join(ranges[:3])}" if ranges else ""),
        f"check whether {case.node.op_type} is defined for such inputs, and clamp them where not",
    )


_RULES: tuple[Rule, ...] = (
    entered,
    of_purpose,
    backward,
    optimizer,
    given,
    written_behind,
    deviation,
    empty_mean,
    ignored_labels,
    ctc,
    logarithm,
    logit,
    root,
    division,
    power,
    domain,
    exponential,
    normalisation,
    half_range,
    overflow,
)
