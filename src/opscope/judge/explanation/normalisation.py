"""Norm layers."""

from __future__ import annotations

from opscope.judge.explanation.case import Case, Explanation, shown


def normalisation(case: Case) -> Explanation | None:
    if "batch_norm" not in case.op and "layer_norm" not in case.op and "group_norm" not in case.op:
        return None
    if case.node.arguments.get("eps", "") in ("0", "0.0"):
        return Explanation(
            f"{case.op} divides by a standard deviation of 0 with eps 0 → {case.bad}",
            "give the normalisation an eps above 0 (1e-5 is usual)",
        )
    return Explanation(
        f"{case.op} → {case.bad}; the largest input is {shown(case.largest)}",
        "normalising a batch of one element has no variance, and huge inputs overflow in their "
        "squares: check the batch size and the size of the inputs",
    )
