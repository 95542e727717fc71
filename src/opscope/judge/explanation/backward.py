"""Gradients that are not finite though what they are of is."""

from __future__ import annotations

from opscope.events import Phase
from opscope.judge.explanation.case import LIMITS, Case, Explanation, shown
from opscope.judge.selection import base_type
from opscope.names import is_recompute
from opscope.wording import counted

_ADVICE = {
    "sqrt": "the derivative of sqrt is infinite at 0: use torch.sqrt(x + eps), with eps inside",
    "norm": "the norm has no derivative at 0: use torch.sqrt((x * x).sum(...) + eps)",
    "linalg_vector_norm": "the norm has no derivative at 0: use torch.sqrt((x * x).sum(...) + eps)",
    "log": "the derivative of log is 1/x: clamp the input, torch.log(x.clamp_min(eps))",
    "rsqrt": "the derivative of rsqrt is infinite at 0: add eps to the input",
    "reciprocal": "the derivative of 1/x is infinite at 0: keep x away from 0",
    "div": "the derivative of a/b by b is -a/b²: keep the divisor away from 0",
    "pow": "the derivative of x**p is infinite at 0 for p < 1: add eps to the base",
    "acos": "acos has an infinite derivative at ±1: clamp to ±(1 - eps)",
    "asin": "asin has an infinite derivative at ±1: clamp to ±(1 - eps)",
    "atan2": "atan2 has no derivative at (0, 0): add eps to one of the two",
    "atanh": "atanh has an infinite derivative at ±1: clamp to ±(1 - eps)",
    "std": "the derivative of std is infinite where all elements are equal: use sqrt(var + eps)",
    "var": "the derivative of std is infinite where all elements are equal: use sqrt(var + eps)",
    "exp": "exp overflows: subtract the maximum first, or use logsumexp or softmax",
    "_softmax": "a row of the softmax has nothing but -Inf: keep one position unmasked",
}


def backward(case: Case) -> Explanation | None:
    node, forward = case.node, case.node.forward
    if node.phase is not Phase.BACKWARD or is_recompute(node.scope):
        return None
    if case.is_half and case.largest > 1e3 and not case.birth.bad.nan:
        return Explanation(
            f"the gradient leaves the range of {case.dtype} (±{LIMITS.get(case.dtype, 0):g}): "
            f"{case.bad}; the largest input is {shown(case.largest)}",
            "scale the loss down (torch.amp.GradScaler does it by itself), or use bfloat16",
        )
    if forward is None:
        return None
    op = base_type(forward)
    what = f"the gradient of {forward.op_type} is not finite: {case.node.op_type} → {case.bad}"
    zero = next((k.row for k in case.inputs if k is not None and k.row.zero), None)
    if zero is not None and case.op in ("div", "pow", "mul", "reciprocal"):
        what += f"; an input of it has {counted(zero.zero, 'zero')}"
    advice = _ADVICE.get(op.removeprefix("_foreach_"))
    if advice is None:
        advice = (
            f"the forward value is fine but its slope is not: keep the input of {forward.op_type} "
            "away from where it has no derivative"
        )
    if zero is not None and case.birth.bad.nan and case.op in ("div", "mul"):
        advice += (
            "; a torch.where or a mask behind it does not help, 0 · Inf is NaN: change the input "
            "before the operator instead"
        )
    return Explanation(what, advice)
