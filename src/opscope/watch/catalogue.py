"""Every condition there is: names, parameters with their limits, and what each looks at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from opscope.watch.conditions import change, values
from opscope.watch.numbers import Numbers
from opscope.watch.outcome import Outcome, Params

Check = Callable[[Numbers, Params], Outcome]

TENSOR, WEIGHT, ACTIVATION, GRADIENT, TRAINING = (
    "tensor",
    "weight",
    "activation",
    "gradient",
    "training",
)
"""What a condition is about; "training" are those that look at more than single values."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a condition; one that is `only_support` is no threshold by itself."""

    name: str
    low: float = -math.inf
    high: float = math.inf
    default: float | None = None
    above: bool = False
    """Whether `low` itself is too low."""
    only_support: bool = False

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        if self.name == "equal_nan":
            return "0 or 1"
        if self.low == -math.inf:
            return "a finite number"
        if self.high == math.inf:
            return f"a number {'above' if self.above else 'of at least'} {self.low:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def allows(self, value: float) -> bool:
        """Whether a value is within the limits."""
        if not math.isfinite(value):
            return False
        if self.name == "equal_nan":
            return value in (0, 1)
        return self.low <= value <= self.high and not (self.above and value == self.low)


@dataclass(frozen=True)
class Condition:
    """One kind of rule. `check` is None for those about training as a whole."""

    abbr: str
    id: str
    target: str
    summary: str
    check: Check | None = None
    parameters: tuple[Parameter, ...] = ()
    nonfinite: bool = False
    """Whether a hit means that a NaN or Inf turned up."""
    needs_change: bool = False
    """Whether it compares a value with that of the step before."""
    needs_range: bool = False
    first_step_only: bool = False

    @property
    def thresholds(self) -> tuple[Parameter, ...]:
        """The parameters of which at least one must be given."""
        return tuple(p for p in self.parameters if not p.only_support)

    @property
    def defaults(self) -> dict[str, float]:
        """What parameters are unless given."""
        return {p.name: p.default for p in self.parameters if p.default is not None}


def _percent(name: str, default: float | None = None) -> Parameter:
    return Parameter(name, 0, 100, default)


def _support(name: str, low: float = -math.inf, default: float | None = None) -> Parameter:
    return Parameter(name, low, default=default, only_support=True)


_STEPS = "steps_ge"
_LARGE = (Parameter("abs_mean_gt", 0), *map(Parameter, ("max_gt", "min_gt", "mean_gt")))
_SMALL = (Parameter("abs_mean_lt", 0), *map(Parameter, ("max_lt", "min_lt", "mean_lt")))
_RANGE = (
    _percent("range_percentage_lt"),
    _percent("range_percentage_gt"),
    Parameter("max_min_lt", 0, above=True),
    Parameter("max_min_gt", 0),
    _support("range_start_inclusive"),
    _support("range_end_inclusive"),
)
_EPSILON = _support("epsilon", 0, change.EPSILON)
_LASTING = _support(_STEPS, 1, 10.0)

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "TO",
        "tensor_overflow",
        TENSOR,
        "a tensor holds NaN or Inf",
        values.overflow,
        nonfinite=True,
    ),
    Condition(
        "OO",
        "operator_overflow",
        TENSOR,
        "an operator turns sound inputs into NaN or Inf",
        nonfinite=True,
    ),
    Condition(
        "TZ",
        "tensor_all_zero",
        TENSOR,
        "too much of a tensor is zero",
        values.all_zero,
        (_percent("zero_percentage_ge", 100),),
    ),
    Condition(
        "TR",
        "tensor_range",
        TENSOR,
        "a tensor's values leave a range",
        values.value_range,
        _RANGE,
        needs_range=True,
    ),
    Condition(
        "TL", "tensor_too_large", TENSOR, "a tensor is above a threshold", values.too_large, _LARGE
    ),
    Condition(
        "TS", "tensor_too_small", TENSOR, "a tensor is below a threshold", values.too_small, _SMALL
    ),
    Condition(
        "WI",
        "weight_initialization",
        WEIGHT,
        "a weight starts with odd values",
        values.initial_weight,
        (_percent("zero_percentage_ge", 100), Parameter("max_gt"), Parameter("min_lt")),
        first_step_only=True,
    ),
    Condition(
        "WO",
        "weight_overflow",
        WEIGHT,
        "a weight holds NaN or Inf",
        values.overflow,
        nonfinite=True,
    ),
    Condition(
        "WL", "weight_too_large", WEIGHT, "a weight is above a threshold", values.too_large, _LARGE
    ),
    Condition(
        "WS", "weight_too_small", WEIGHT, "a weight is below a threshold", values.too_small, _SMALL
    ),
    Condition(
        "WNC",
        "weight_not_changed",
        WEIGHT,
        "a weight is as it was in the step before",
        change.not_changed,
        (
            Parameter("rtol", 0, default=change.RTOL),
            _support("atol", 0, change.ATOL),
            _support("equal_nan", 0, 0.0),
        ),
        needs_change=True,
    ),
    Condition(
        "WCL",
        "weight_change_too_large",
        WEIGHT,
        "a weight moves too far in one step",
        change.change_too_large,
        (Parameter("abs_mean_update_ratio_gt", 0, default=0.1), _EPSILON),
        needs_change=True,
    ),
    Condition(
        "WCS",
        "weight_change_too_small",
        WEIGHT,
        "a weight hardly moves in one step",
        change.change_too_small,
        (Parameter("abs_mean_update_ratio_lt", 0, default=1e-4), _EPSILON),
        needs_change=True,
    ),
    Condition(
        "AR",
        "activation_range",
        ACTIVATION,
        "an activation's values leave a range",
        values.value_range,
        _RANGE,
        needs_range=True,
    ),
    Condition(
        "GE",
        "gradient_exploding",
        GRADIENT,
        "a gradient holds NaN or Inf",
        values.overflow,
        nonfinite=True,
    ),
    Condition(
        "GL",
        "gradient_too_large",
        GRADIENT,
        "a gradient is above a threshold",
        values.too_large,
        _LARGE,
    ),
    Condition(
        "GV",
        "gradient_vanishing",
        GRADIENT,
        "a gradient is below a threshold",
        values.too_small,
        _SMALL,
    ),
    Condition(
        "AS",
        "activation_saturated",
        ACTIVATION,
        "a tanh or sigmoid is so far out that its derivative vanishes",
        parameters=(Parameter("derivative_lt", 0, 1, 1e-6), _LASTING),
    ),
    Condition(
        "AD",
        "activation_dead",
        ACTIVATION,
        "a ReLU lets next to nothing through",
        values.dead,
        (_percent("zero_percentage_ge", 99.9), _LASTING),
    ),
    Condition("LN", "loss_not_finite", TRAINING, "a loss is NaN or Inf", nonfinite=True),
    Condition(
        "LS",
        "loss_spike",
        TRAINING,
        "a loss is far above those of the steps before",
        parameters=(
            Parameter("deviations_gt", 0, default=20.0),
            Parameter("window_min", 2, default=20.0, only_support=True),
            Parameter("window", 2, default=100.0, only_support=True),
        ),
    ),
    Condition(
        "PU",
        "parameter_unchanged",
        TRAINING,
        "a trainable parameter never changes",
        parameters=(Parameter(_STEPS, 1, default=20.0),),
    ),
    Condition(
        "PO",
        "parameter_without_optimizer",
        TRAINING,
        "a parameter has gradients, but no optimizer owns it",
        parameters=(Parameter(_STEPS, 1, default=5.0),),
    ),
    Condition(
        "PG",
        "parameter_without_gradient",
        TRAINING,
        "an optimizer's parameter never gets a gradient",
        parameters=(Parameter(_STEPS, 1, default=20.0),),
    ),
    Condition(
        "GA",
        "gradient_not_cleared",
        TRAINING,
        "gradients are added to those of the step before",
        parameters=(Parameter(_STEPS, 1, default=3.0),),
    ),
    Condition("FC", "frozen_parameter_changed", TRAINING, "a frozen parameter changes"),
    Condition("ED", "evaluation_differs", TRAINING, "an evaluation runs with dropout on"),
    Condition("RD", "ranks_differ", TRAINING, "a replicated parameter differs between ranks"),
)
BY_NAME: dict[str, Condition] = {c.abbr: c for c in CONDITIONS} | {c.id: c for c in CONDITIONS}
NONFINITE = frozenset(c.abbr for c in CONDITIONS if c.nonfinite)


def check_saturated(op_type: str) -> Check:
    """The check of AS for one kind of activation."""
    return values.saturated_tanh if "tanh" in op_type else values.saturated_sigmoid
