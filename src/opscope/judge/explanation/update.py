"""Updates that overflow, divide by zero, or go by a state or a rate that is not finite."""

from __future__ import annotations

from opscope.events import Outside, Phase
from opscope.judge.explanation.case import Case, Explanation, shown

_SMALL = 1e3
"""Numbers below this overflow only by what they are multiplied with."""


def optimizer(case: Case) -> Explanation | None:
    if case.node.phase is not Phase.OPTIMIZER:
        return None
    name = case.node.parameter or next((o.parameter for o in case.node.outputs if o.parameter), "")
    of = f" of {name}" if name else ""
    eps = case.node.arguments.get("eps", "")
    if eps in ("0", "0.0") or (case.op in ("addcdiv", "div") and _has_zero(case)):
        return Explanation(
            f"the update{of} divides by zero: {case.bad}; the second moment is 0, and so is eps",
            "give the optimizer an eps above 0 (1e-8 is usual; 1e-4 with float16 parameters)",
        )
    if case.largest < _SMALL:
        return _of_outside(case, of)
    return Explanation(
        f"the update{of} overflows: {case.node.op_type} → {case.bad}; the largest input is "
        f"{shown(case.largest)}",
        "lower the learning rate, clip the gradients (torch.nn.utils.clip_grad_norm_), or warm up",
    )


def _of_outside(case: Case, of: str) -> Explanation:
    """Explain what none of the tensors of an update can be the reason of."""
    source = case.node.sources[0] if case.node.sources else None
    if isinstance(source, Outside) and source.kind == "state" and case.birth.bad.nan:
        return Explanation(
            f"{case.bad} in the optimizer's state {source.name}, though what {case.node.op_type} "
            "adds to it is sound: the state was not finite before",
            "look at the checkpoint that the optimizer's state was loaded from, and at who else "
            "writes to it",
        )
    return Explanation(
        f"the update{of} is not finite: {case.node.op_type} → {case.bad}, though its largest input "
        f"is {shown(case.largest)}: the factor before it, which comes of the learning rate, is",
        "print the learning rate of the optimizer (optimizer.param_groups[0]['lr']): it is "
        "infinite, NaN or far too large; check what schedules it",
    )


def _has_zero(case: Case) -> bool:
    return any(known is not None and known.row.zero for known in case.inputs)
