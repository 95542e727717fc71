"""AD: a ReLU that lets next to nothing through."""

from __future__ import annotations

from opscope.judge.condition import ACTIVATION, LASTING, Condition, percent
from opscope.judge.conditions.all_zero import all_zero

ACTIVATION_DEAD = Condition(
    "AD",
    "activation_dead",
    ACTIVATION,
    "a ReLU lets next to nothing through",
    all_zero,
    (percent("zero_percentage_ge", 99.9), LASTING),
    op_types=frozenset(("relu", "relu6")),
    advice="lower the learning rate, begin with smaller weights, or use LeakyReLU or GELU",
)
