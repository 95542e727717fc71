"""What an operator did to turn sound numbers into NaN or Inf, and what helps: one rule per case."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from opscope.analysis.soundness import Birth, Status
from opscope.events import Node, Phase
from opscope.stats.row import Row
from opscope.watch.selection import base_type

LIMITS = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.40e38, "float64": 1.80e308}
_LOG_LIMITS = {"float16": 11.09, "bfloat16": 88.7, "float32": 88.7, "float64": 709.7}


class Known(NamedTuple):
    """A value as far as its statistics tell."""

    row: Row
    dtype: str
    shape: tuple[int, ...]


class Explanation(NamedTuple):
    """What happened, and one piece of advice."""

    what: str
    advice: str


class Case(NamedTuple):
    """An operator at fault with its values; an input without statistics is None."""

    birth: Birth
    inputs: Sequence[Known | None]
    output: Known | None

    @property
    def node(self) -> Node:
        return self.birth.node

    @property
    def op(self) -> str:
        return base_type(self.node).removeprefix("_foreach_")

    @property
    def bad(self) -> str:
        return self.birth.bad.text

    @property
    def largest(self) -> float:
        """The largest absolute value among the inputs."""
        ends = [abs(e) for k in self.inputs if k and k.row.finite for e in (k.row.min, k.row.max)]
        return max(ends, default=0.0)

    def input(self, slot: int) -> Row | None:
        known = self.inputs[slot] if slot < len(self.inputs) else None
        return known.row if known is not None and known.row.count else None

    @property
    def dtype(self) -> str:
        return self.output.dtype if self.output is not None else ""

    @property
    def is_half(self) -> bool:
        return self.dtype in ("float16", "float8_e5m2", "float8_e4m3fn")


Rule = Callable[[Case], Explanation | None]


def explain(case: Case) -> Explanation:
    """The first rule that fits; there is always one."""
    for rule in _RULES:
        found = rule(case)
        if found is not None:
            return found
    raise AssertionError("the last rule fits everything")


def _n(value: float) -> str:
    value += 0.0  # no -0
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e6
    return f"{value:.1f}" if whole else f"{value:.6g}"


# -------------------------------------------------------------------------------- from outside


def _entered(case: Case) -> Explanation | None:
    source = case.birth.entered
    if source is None:
        return None
    name = f" {source.name}" if source.name else ""
    what = f"{case.bad} came in with the {source.kind}{name}, first read by {case.node.op_type}"
    if source.kind == "rank":
        what = f"{case.bad} came from another rank through {case.node.op_type}"
        return Explanation(what, "look at the verdict of the rank that sent it")
    if source.kind == "batch":
        return Explanation(
            what,
            "check the data of this batch (missing values, a division in the preprocessing, a "
            "corrupt file); torch.isfinite(batch).all() in the Dataset finds it where it is made",
        )
    if source.kind == "parameter":
        return Explanation(
            what,
            "the parameter was not finite before this step: check its initialisation, the "
            "checkpoint it was loaded from, or the update of the step before",
        )
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


def _of_purpose(case: Case) -> Explanation | None:
    if case.birth.of is Status.UNWRITTEN:
        return Explanation(
            f"{case.node.op_type} reads memory that was never written: {case.bad}",
            "torch.empty does not clear memory: write all of it before reading, or use torch.zeros",
        )
    if case.birth.of is not Status.ON_PURPOSE:
        return None
    if case.op in ("_softmax", "softmax", "_log_softmax", "log_softmax") or "attention" in case.op:
        return Explanation(
            f"softmax of rows in which everything is masked with -Inf → {case.bad}",
            "a row must keep at least one position: mask with a large finite number such as "
            "torch.finfo(dtype).min, or set the rows of pure padding to 0 after the softmax",
        )
    how = {"mul": "Inf · 0", "sub": "Inf - Inf", "add": "Inf - Inf", "div": "Inf / Inf"}
    made = how.get(case.op, f"{case.node.op_type} of an infinite mask")
    return Explanation(
        f"{made} → {case.bad}; the infinities were written on purpose",
        "multiply or subtract the mask before it is filled with -Inf, or mask with a large finite "
        "number instead",
    )


# ------------------------------------------------------------------------------------- backward

_BACKWARD_ADVICE = {
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


def _backward(case: Case) -> Explanation | None:
    node, forward = case.node, case.node.forward
    if node.phase is not Phase.BACKWARD or node.scope.startswith("Gradients/recompute/"):
        return None
    if case.is_half and case.largest > 1e3 and not case.birth.bad.nan:
        return Explanation(
            f"the gradient leaves the range of {case.dtype} (±{LIMITS.get(case.dtype, 0):g}): "
            f"{case.bad}; the largest input is {_n(case.largest)}",
            "scale the loss down (torch.amp.GradScaler does it by itself), or use bfloat16",
        )
    if forward is None:
        return None
    op = base_type(forward)
    what = f"the gradient of {forward.op_type} is not finite: {case.node.op_type} → {case.bad}"
    zero = next((k.row for k in case.inputs if k is not None and k.row.zero), None)
    if zero is not None and case.op in ("div", "pow", "mul", "reciprocal"):
        what += f"; an input of it has {zero.zero} zeros"
    advice = _BACKWARD_ADVICE.get(op.removeprefix("_foreach_"))
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


# ------------------------------------------------------------------------------------- optimizer


def _optimizer(case: Case) -> Explanation | None:
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
        f"{_n(case.largest)}",
        "lower the learning rate, clip the gradients (torch.nn.utils.clip_grad_norm_), or warm up",
    )


def _has_zero(case: Case) -> bool:
    return any(known is not None and known.row.zero for known in case.inputs)


# ------------------------------------------------------------------------------------- forward


def _log(case: Case) -> Explanation | None:
    if case.op not in ("log", "log2", "log10", "log1p", "xlogy", "special_xlog1py"):
        return None
    row = case.input(1 if case.op in ("xlogy", "special_xlog1py") else 0)
    edge = -1.0 if "log1p" in case.op else 0.0
    if row is None:
        return None
    if row.min < edge:
        below = "a negative number" if not edge else f"a number below {edge:g}"
        return Explanation(
            f"{case.op} of {below} → {case.bad}; input min is {_n(row.min)}",
            f"the input of {case.op} must be above {edge:g}: clamp it, or check how it got there",
        )
    least = "1e-6" if case.is_half else "1e-8"  # of which float16 makes 0
    clamped = f"torch.{case.op}(x.clamp_min({least}))"
    if edge:
        clamped = f"torch.{case.op}(x.clamp_min(-1 + 1e-6))"
    elif case.op == "xlogy":
        clamped = f"torch.xlogy(x, y.clamp_min({least}))"
    return Explanation(
        f"{case.op} of {edge:g} → {case.bad}; input min is {_n(row.min)}",
        f"clamp the input, {clamped}, or use log_softmax, logsigmoid",
    )


def _logit(case: Case) -> Explanation | None:
    row = case.input(0)
    if case.op != "logit" or row is None:
        return None
    inside = row.min >= 0 and row.max <= 1
    what = "of 0 or 1" if inside else "outside its range [0, 1]"
    return Explanation(
        f"logit {what} → {case.bad}; input is from {_n(row.min)} to {_n(row.max)}",
        "clamp the input away from 0 and 1: torch.logit(x, eps=1e-6)",
    )


def _root(case: Case) -> Explanation | None:
    if case.op not in ("sqrt", "rsqrt"):
        return None
    row = case.input(0)
    if row is None:
        return None
    if row.min < 0:
        return Explanation(
            f"{case.op} of a negative number → {case.bad}; input min is {_n(row.min)}",
            "rounding can make a variance negative: clamp it, torch.sqrt(x.clamp_min(0) + eps)",
        )
    return Explanation(
        f"{case.op} of 0 → {case.bad}; input min is {_n(row.min)}",
        f"add a small eps inside: torch.{case.op}(x + eps)",
    )


def _division(case: Case) -> Explanation | None:
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


def _power(case: Case) -> Explanation | None:
    if case.op not in ("pow", "float_power"):
        return None
    row = case.input(0)
    if row is None:
        return None
    if case.birth.bad.nan and row.min < 0:
        return Explanation(
            f"pow of a negative base with a fractional exponent → {case.bad}; base min is "
            f"{_n(row.min)}",
            "take the power of x.abs() or x.clamp_min(0)",
        )
    if row.zero and _exponent(case) < 0:
        return Explanation(
            f"pow of 0 with a negative exponent → {case.bad}; {row.zero} of {row.count} bases "
            "are 0",
            "add a small eps to the base",
        )
    if case.is_half:
        return None
    return Explanation(
        f"pow overflows {case.dtype} → {case.bad}; the largest base is "
        f"{_n(max(abs(row.min), abs(row.max)))}",
        "lower the exponent, or clamp or normalise the base",
    )


def _exponent(case: Case) -> float:
    """The exponent of a power; of many, the lowest."""
    row = case.input(1)
    if row is not None:
        return float(row.min)
    try:
        return float(case.node.arguments.get("exponent", ""))
    except ValueError:
        return math.nan


_DOMAINS = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, float("inf")),
    "erfinv": (-1, 1),
}


def _domain(case: Case) -> Explanation | None:
    row = case.input(0)
    if case.op not in _DOMAINS or row is None:
        return None
    low, high = _DOMAINS[case.op]
    clamped = f"x.clamp({low} + eps, {high} - eps)" if high < math.inf else f"x.clamp_min({low})"
    return Explanation(
        f"{case.op} outside its range [{low}, {high}] → {case.bad}; input is from {_n(row.min)} "
        f"to {_n(row.max)}",
        f"clamp the input: {clamped}; rounding alone can leave the range",
    )


def _exponential(case: Case) -> Explanation | None:
    if case.op not in ("exp", "exp2", "expm1", "sinh", "cosh", "logcumsumexp", "softplus"):
        return None
    row = case.input(0)
    if row is None:
        return None
    limit = _LOG_LIMITS.get(case.dtype, 88.7)
    base = "exp"
    if case.op == "exp2":
        base, limit = "exp2", limit / math.log(2)
    return Explanation(
        f"{case.op} overflows → {case.bad}; input max is {_n(row.max)}, {case.dtype} holds "
        f"{base}(x) up to x = {limit:.3g}",
        "subtract the maximum first (torch.logsumexp and softmax do), or clamp the input",
    )


def _half_range(case: Case) -> Explanation | None:
    if not case.is_half:
        return None
    limit = LIMITS.get(case.dtype, 448.0)
    return Explanation(
        f"{case.node.op_type} leaves the range of {case.dtype} (±{limit:g}) → {case.bad}; the "
        f"largest input is {_n(case.largest)}",
        "use bfloat16, or keep this part in float32 (torch.autocast(enabled=False) around it), or "
        "scale the values down",
    )


def _batch_norm(case: Case) -> Explanation | None:
    if "batch_norm" not in case.op and "layer_norm" not in case.op and "group_norm" not in case.op:
        return None
    if case.node.arguments.get("eps", "") in ("0", "0.0"):
        return Explanation(
            f"{case.op} divides by a standard deviation of 0 with eps 0 → {case.bad}",
            "give the normalisation an eps above 0 (1e-5 is usual)",
        )
    return Explanation(
        f"{case.op} → {case.bad}; the largest input is {_n(case.largest)}",
        "normalising a batch of one element has no variance, and huge inputs overflow in their "
        "squares: check the batch size and the size of the inputs",
    )


_PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "baddbmm", "matmul", "mul", "add", "sub", "sum", "mean", "prod"),
        *("cumprod", "cumsum", "pow", "dot", "mv", "addmv", "convolution", "square", "var", "std"),
        *("linalg_vector_norm", "norm", "mse_loss", "addcmul", "lerp", "div", "rsub", "logsumexp"),
    )
)


def _overflow(case: Case) -> Explanation | None:
    limit = LIMITS.get(case.dtype)
    if case.op not in _PRODUCTS or limit is None or case.largest < limit**0.4:
        return None
    advice = "values grow from step to step: lower the learning rate, clip gradients, or normalise"
    if case.op in ("cumprod", "prod"):
        advice = "add logarithms instead of multiplying: torch.cumsum(torch.log(x), ...)"
    return Explanation(
        f"{case.node.op_type} overflows {case.dtype} → {case.bad}; the largest input is "
        f"{_n(case.largest)}",
        advice,
    )


def _anything(case: Case) -> Explanation:
    ranges = [
        f"input {slot} is from {_n(known.row.min)} to {_n(known.row.max)}"
        for slot, known in enumerate(case.inputs)
        if known is not None and known.row.finite
    ]
    return Explanation(
        f"{case.node.op_type} turned sound inputs into {case.bad}"
        + (f"; {', '.join(ranges[:3])}" if ranges else ""),
        f"check whether {case.node.op_type} is defined for such inputs, and clamp them where not",
    )


_RULES: tuple[Rule, ...] = (
    _entered,
    _of_purpose,
    _backward,
    _optimizer,
    _log,
    _logit,
    _root,
    _division,
    _power,
    _domain,
    _exponential,
    _batch_norm,
    _half_range,
    _overflow,
    _anything,
)
