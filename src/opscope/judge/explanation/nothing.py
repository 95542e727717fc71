"""Means and deviations over nothing, or next to nothing."""

from __future__ import annotations

from opscope.judge.explanation.case import Case, Explanation


def deviation(case: Case) -> Explanation | None:
    if case.op not in ("std", "var", "std_mean", "var_mean") or case.output is None:
        return None
    row = case.input(0)
    if row is None or row.count != case.output.row.count:
        return None
    return Explanation(
        f"{case.op} over single elements → {case.bad}: it divides by n - 1, which is 0",
        "skip a batch of one, or use unbiased=False (correction=0)",
    )


def empty_mean(case: Case) -> Explanation | None:
    known = case.inputs[0] if case.inputs else None
    if case.op != "mean" or known is None or known.row.count:
        return None
    return Explanation(
        f"the mean over no elements → {case.bad}: the input is empty, {list(known.shape)}",
        "skip a batch in which a mask or a selection leaves nothing",
    )


def ignored_labels(case: Case) -> Explanation | None:
    labels = case.input(1)
    if not case.op.startswith("nll_loss") or labels is None or not case.birth.bad.nan:
        return None
    ignored = case.node.arguments.get("ignore_index", "-100")
    if str(int(labels.min)) != ignored or labels.min != labels.max:
        return None
    return Explanation(
        f"all {labels.count} labels are {ignored}, which the loss ignores: a mean over nothing → "
        f"{case.bad}",
        "skip such a batch: if (labels != ignore_index).any()",
    )


def ctc(case: Case) -> Explanation | None:
    if "ctc_loss" not in case.op:
        return None
    return Explanation(
        f"the CTC loss is infinite: {case.bad}; a target does not fit into its input",
        "targets, and a blank between equal labels, must not be longer than the input: leave such "
        "samples out, or use zero_infinity=True",
    )
