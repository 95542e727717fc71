"""Norm layers."""

from __future__ import annotations

from opscope.judge.explanation.case import Case, Explanation, shown

_RUNNING_VARIANCE = 4
"""The slot of a batch norm that has it."""


def normalisation(case: Case) -> Explanation | None:
    if "batch_norm" not in case.op and "layer_norm" not in case.op and "group_norm" not in case.op:
        return None
    if case.node.arguments.get("eps", "") in ("0", "0.0"):
        return Explanation(
            f"{case.op} divides by a standard deviation of 0 with eps 0 → {case.bad}",
            "give the normalisation an eps above 0 (1e-5 is usual)",
        )
    variance = case.input(_RUNNING_VARIANCE)
    if "batch_norm" in case.op and variance is not None and variance.min < 0:
        return Explanation(
            f"{case.op} takes the root of a running variance that is negative → {case.bad}; its "
            f"min is {shown(variance.min)}",
            "a variance cannot be negative: look at the checkpoint that the buffer running_var was "
            "loaded from, or at who else writes to it",
        )
    return Explanation(
        f"{case.op} → {case.bad}; the largest input is {shown(case.largest)}",
        "normalising a batch of one element has no variance, and huge inputs overflow in their "
        "squares: check the batch size and the size of the inputs",
    )
