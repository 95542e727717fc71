"""Updates that overflow or divide by zero."""

from __future__ import annotations

from opscope.events import Phase
from opscope.judge.explanation.case import Case, Explanation, shown


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
    return Explanation(
        f"the update{of} overflows: {case.node.op_type} → {case.bad}; the largest input is "
        f"{shown(case.largest)}",
        "lower the learning rate, clip the gradients (torch.nn.utils.clip_grad_norm_), or warm up",
    )


def _has_zero(case: Case) -> bool:
    return any(known is not None and known.row.zero for known in case.inputs)
