"""Explains values that no operator of the step made: from outside, by other code, on purpose."""

from __future__ import annotations

from opscope.judge.explanation.case import Case, Explanation
from opscope.judge.origin.birth import FROM_SCRIPT, BadCause
from opscope.judge.origin.operators import WRITERS

_COPIES = frozenset(
    (
        *("cat", "clone", "contiguous", "copy", "flip", "gather", "index", "index_select"),
        *("repeat", "roll", "stack", "_to_copy"),
    )
)
"""Operators whose outputs are elements of their inputs."""
_REDUCTIONS = ("logsumexp", "logcumsumexp", "amax", "max", "mean", "sum")


def entered(case: Case) -> Explanation | None:
    source = case.birth.entered
    if source is None:
        return None
    name = f" {source.name}" if source.name else ""
    what = f"{case.bad} came in with the {source.kind}{name}, first read by {case.node.op_type}"
    if source.kind == "rank":
        what = f"{case.bad} came from another rank through {case.node.op_type}"
        return Explanation(what, "look at the verdict of the rank that sent it")
    if source == FROM_SCRIPT:
        return Explanation(
            f"{case.node.op_type} writes a number of the script: {case.bad}",
            "look at where that number comes from: it was there before this operator ran",
        )
    if source.kind == "batch":
        return Explanation(
            what,
            "check the data of this batch (missing values, a division in the preprocessing, a "
            "corrupt file); torch.isfinite(batch).all() in the Dataset finds it where it is made",
        )
    if source.kind == "storage":
        return Explanation(
            f"{case.bad} came in with memory that was loaded from a file, or copied as it is",
            "the file that is loaded here holds what is not finite: look at what was saved, and "
            "when; an earlier checkpoint may still be sound",
        )
    if source.kind == "parameter":
        return Explanation(what, _of_parameter(source.name, case.step))
    if source.kind == "buffer":
        return Explanation(
            what,
            "the buffer was spoilt before this step (running statistics of a batch with NaN stay "
            "spoilt): check what last wrote to it, and reset it",
        )
    if source.kind == "operator":
        return Explanation(
            what,
            "that operator has no statistics, so the fault may have begun there or before it: "
            "run without --scope, or with a wider one",
        )
    return Explanation(what, "check where this tensor is made: it is not an operator of this step")


def _of_parameter(name: str, step: int) -> str:
    if step:
        return "the parameter was not finite before this step: look at the update of the one before"
    return (
        f"it was so before the first update: look at its initialisation, or at the key {name} of "
        "the checkpoint that was loaded"
    )


def of_purpose(case: Case) -> Explanation | None:
    if case.birth.of is BadCause.UNWRITTEN:
        return Explanation(
            f"{case.node.op_type} reads memory that was never written: {case.bad}",
            "torch.empty does not clear memory: write all of it before reading, or use torch.zeros",
        )
    if case.birth.of is not BadCause.ON_PURPOSE:
        return None
    if case.op in ("_softmax", "softmax", "_log_softmax", "log_softmax") or "attention" in case.op:
        return Explanation(
            f"softmax of rows in which everything is masked with -Inf → {case.bad}",
            "a row must keep at least one position: mask with a large finite number such as "
            "torch.finfo(dtype).min, or set the rows of pure padding to 0 after the softmax",
        )
    if case.op in WRITERS and case.birth.bad.finite == 0:
        return Explanation(
            f"{case.node.op_type} writes nothing but infinities → {case.bad}, and they reached "
            "what is trained",
            "check where the number that is written here comes from; as a mask, it must leave "
            "something unmasked",
        )
    if case.op in _REDUCTIONS:
        return Explanation(
            f"{case.node.op_type} of rows in which everything is -Inf, as it was masked → "
            f"{case.bad}",
            "a row must keep at least one element: leave rows without any out, or mask with a "
            "large finite number such as torch.finfo(dtype).min",
        )
    how = {"mul": "Inf · 0", "sub": "Inf - Inf", "add": "Inf - Inf", "div": "Inf / Inf"}
    made = how.get(case.op, f"{case.node.op_type} of an infinite mask")
    if case.op in ("add", "sub"):
        return Explanation(
            f"{made} → {case.bad}; the infinities were written on purpose",
            "both sides are infinite there: mask with a large finite number such as -1e4 instead, "
            "or set the maximum that is subtracted to 0 where everything is masked",
        )
    return Explanation(
        f"{made} → {case.bad}; the infinities were written on purpose",
        "multiply or subtract the mask before it is filled with -Inf, or mask with a large finite "
        "number instead",
    )


def written_behind(case: Case) -> Explanation | None:
    """Explain what only copies: its input was changed without an operator."""
    kinds = {known.dtype for known in case.inputs if known is not None}
    if case.op not in _COPIES or case.dtype not in kinds:
        return None  # a conversion may leave the range of what it converts to
    return Explanation(
        f"{case.node.op_type} only copies, and copied {case.bad}: what it reads was sound when an "
        "operator last wrote to it, and has been written to since by something that is none",
        "look between the two for code that shares the memory: an array of NumPy by .numpy() or "
        "from_numpy(), a C++ extension, another thread or process",
    )
