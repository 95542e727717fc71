"""Divisions by zero."""

from __future__ import annotations

from opscope.judge.explanation.case import Case, Explanation


def division(case: Case) -> Explanation | None:
    if case.op not in ("div", "reciprocal", "remainder", "fmod", "floor_divide", "true_divide"):
        return None
    scalar = case.node.arguments.get("other", "")
    if scalar in ("0", "0.0", "-0.0"):
        kind = "0 / 0" if case.birth.bad.nan else "division by 0"
        advice = f"the divisor is the number {scalar}: check how it is computed"
        return Explanation(f"{kind} → {case.bad}; the divisor is {scalar}", advice)
    divisor = case.input(0 if case.op == "reciprocal" else 1)
    if divisor is None or not divisor.zero:
        return None
    source = case.node.sources[-1] if case.node.sources else None
    maker = getattr(getattr(source, "node", None), "op_type", "")
    zeros = f"{divisor.zero} of {divisor.count} divisors are 0"
    kind = "0 / 0" if case.birth.bad.nan else "division by 0"
    if maker in ("std", "var", "sqrt", "std_mean", "var_mean"):
        return Explanation(
            f"{kind} → {case.bad}; {zeros}: the standard deviation of equal (or single) elements",
            "divide by (std + eps), or leave constant columns out",
        )
    if "norm" in maker:
        return Explanation(
            f"{kind} → {case.bad}; {zeros}: the norm of a vector of zeros",
            "divide by norm.clamp_min(eps), or use torch.nn.functional.normalize",
        )
    if maker in ("sum", "mean", "count_nonzero"):
        return Explanation(
            f"{kind} → {case.bad}; {zeros}: a sum over nothing",
            "divide by total.clamp_min(1): a mask or a class can be empty in some batch",
        )
    return Explanation(
        f"{kind} → {case.bad}; {zeros}", "keep the divisor away from 0: x / (y + eps)"
    )
