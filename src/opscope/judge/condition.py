"""The parts of a condition: its names, its parameters with their limits, and what it looks at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.judge.numbers import NumberColumns
from opscope.judge.outcome import Outcome, Params

if TYPE_CHECKING:
    from opscope.judge.training_check import TrainingCheck

Check = Callable[[NumberColumns, Params], Outcome]

TENSOR, WEIGHT, ACTIVATION, GRADIENT, TRAINING = (
    "tensor",
    "weight",
    "activation",
    "gradient",
    "training",
)
"""The subjects of conditions; "training" are those that look at more than single values."""
STEPS = "steps_ge"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a condition; one that is `only_support` is no threshold by itself."""

    name: str
    low: float = -math.inf
    high: float = math.inf
    default: float | None = None
    above: bool = False
    """True if `low` itself is too low."""
    only_support: bool = False

    @property
    def allowed(self) -> str:
        """The values that are allowed, in words."""
        if self.name == "equal_nan":
            return "0 or 1"
        if self.low == -math.inf:
            return "a finite number"
        if self.high == math.inf:
            return f"a number {'above' if self.above else 'of at least'} {self.low:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def allows(self, value: float) -> bool:
        """Return whether a value is within the limits."""
        if not math.isfinite(value):
            return False
        if self.name == "equal_nan":
            return value in (0, 1)
        return self.low <= value <= self.high and not (self.above and value == self.low)


@dataclass(frozen=True)
class Condition:
    """One kind of rule; `opscope.judge.conditions` has a file for each."""

    abbr: str
    id: str
    target: str
    summary: str
    check: Check | None = None
    """The function that judges some values at once, by their numbers."""
    parameters: tuple[Parameter, ...] = ()
    advice: str = ""
    """The advice given, if it is the same in all cases."""
    nonfinite: bool = False
    """True if a hit means that a NaN or Inf turned up."""
    needs_change: bool = False
    """True if it compares a value with that of the step before."""
    needs_range: bool = False
    first_step_only: bool = False
    check_of: Callable[[str], Check] | None = None
    """For those whose check depends on the operator: its type → the check."""
    op_types: frozenset[str] = frozenset()
    """The operators it is about, if it is about some only."""
    training: type[TrainingCheck] | None = None
    """For those about training as a whole: what keeps and checks what they need."""
    expression: str = ""
    """The text of one that a person has written; see `opscope.judge.expressions`."""

    @property
    def thresholds(self) -> tuple[Parameter, ...]:
        """The parameters of which at least one must be given."""
        return tuple(p for p in self.parameters if not p.only_support)

    @property
    def defaults(self) -> dict[str, float]:
        """The parameters that have a default, with it."""
        return {p.name: p.default for p in self.parameters if p.default is not None}


def percent(name: str, default: float | None = None) -> Parameter:
    """Make a parameter from 0 to 100."""
    return Parameter(name, 0, 100, default)


def support(name: str, low: float = -math.inf, default: float | None = None) -> Parameter:
    """Make a parameter that is no threshold by itself."""
    return Parameter(name, low, default=default, only_support=True)


LASTING = support(STEPS, 1, 10.0)
"""For how many steps in a row a condition must hold."""
MAY_LAST = support(STEPS, 1)
"""The same, of those for which one step is enough unless told otherwise."""
