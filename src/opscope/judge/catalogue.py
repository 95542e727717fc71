"""Every condition there is."""

from __future__ import annotations

from opscope.judge.condition import Condition
from opscope.judge.conditions.activation_dead import ACTIVATION_DEAD
from opscope.judge.conditions.activation_saturated import ACTIVATION_SATURATED
from opscope.judge.conditions.all_zero import TENSOR_ALL_ZERO
from opscope.judge.conditions.batch_repeats import BATCH_REPEATS
from opscope.judge.conditions.change_negligible import CHANGE_NEGLIGIBLE
from opscope.judge.conditions.evaluation_differs import EVALUATION_DIFFERS
from opscope.judge.conditions.expression import EXPRESSION
from opscope.judge.conditions.feature_constant import FEATURE_CONSTANT
from opscope.judge.conditions.feature_scale import FEATURE_SCALE
from opscope.judge.conditions.frozen_parameter_changed import FROZEN_PARAMETER_CHANGED
from opscope.judge.conditions.gradient_depth import GRADIENT_DEPTH
from opscope.judge.conditions.gradient_not_cleared import GRADIENT_NOT_CLEARED
from opscope.judge.conditions.gradient_unused import GRADIENT_UNUSED
from opscope.judge.conditions.input_scale import INPUT_SCALE
from opscope.judge.conditions.linear_after_linear import LINEAR_AFTER_LINEAR
from opscope.judge.conditions.loss_activation import LOSS_ACTIVATION
from opscope.judge.conditions.loss_at_start import LOSS_AT_START
from opscope.judge.conditions.loss_broadcast import LOSS_BROADCAST
from opscope.judge.conditions.loss_diverges import LOSS_DIVERGES
from opscope.judge.conditions.loss_not_finite import LOSS_NOT_FINITE
from opscope.judge.conditions.loss_oscillates import LOSS_OSCILLATES
from opscope.judge.conditions.loss_plateau import LOSS_PLATEAU
from opscope.judge.conditions.loss_spike import LOSS_SPIKE
from opscope.judge.conditions.loss_target import LOSS_TARGET
from opscope.judge.conditions.norm_of_one import NORM_OF_ONE
from opscope.judge.conditions.operator_overflow import OPERATOR_OVERFLOW
from opscope.judge.conditions.optimizer_settings import OPTIMIZER_SETTINGS
from opscope.judge.conditions.overflow import GRADIENT_EXPLODING, TENSOR_OVERFLOW, WEIGHT_OVERFLOW
from opscope.judge.conditions.parameter_unchanged import PARAMETER_UNCHANGED
from opscope.judge.conditions.parameter_without_gradient import PARAMETER_WITHOUT_GRADIENT
from opscope.judge.conditions.parameter_without_optimizer import PARAMETER_WITHOUT_OPTIMIZER
from opscope.judge.conditions.ranks_differ import RANKS_DIFFER
from opscope.judge.conditions.too_large import (
    GRADIENT_TOO_LARGE,
    TENSOR_TOO_LARGE,
    WEIGHT_TOO_LARGE,
)
from opscope.judge.conditions.too_small import (
    GRADIENT_VANISHING,
    TENSOR_TOO_SMALL,
    WEIGHT_TOO_SMALL,
)
from opscope.judge.conditions.training_in_eval_mode import TRAINING_IN_EVAL_MODE
from opscope.judge.conditions.value_range import ACTIVATION_RANGE, TENSOR_RANGE
from opscope.judge.conditions.weight_change import (
    WEIGHT_CHANGE_TOO_LARGE,
    WEIGHT_CHANGE_TOO_SMALL,
)
from opscope.judge.conditions.weight_initialization import WEIGHT_INITIALIZATION
from opscope.judge.conditions.weight_not_changed import WEIGHT_NOT_CHANGED
from opscope.judge.conditions.weights_equal import WEIGHTS_EQUAL

CONDITIONS: tuple[Condition, ...] = (
    TENSOR_OVERFLOW,
    OPERATOR_OVERFLOW,
    TENSOR_ALL_ZERO,
    TENSOR_RANGE,
    TENSOR_TOO_LARGE,
    TENSOR_TOO_SMALL,
    WEIGHT_INITIALIZATION,
    WEIGHT_OVERFLOW,
    WEIGHT_TOO_LARGE,
    WEIGHT_TOO_SMALL,
    WEIGHT_NOT_CHANGED,
    WEIGHT_CHANGE_TOO_LARGE,
    WEIGHT_CHANGE_TOO_SMALL,
    ACTIVATION_RANGE,
    GRADIENT_EXPLODING,
    GRADIENT_TOO_LARGE,
    GRADIENT_VANISHING,
    ACTIVATION_SATURATED,
    ACTIVATION_DEAD,
    LOSS_NOT_FINITE,
    LOSS_SPIKE,
    PARAMETER_UNCHANGED,
    PARAMETER_WITHOUT_OPTIMIZER,
    PARAMETER_WITHOUT_GRADIENT,
    GRADIENT_NOT_CLEARED,
    GRADIENT_UNUSED,
    FROZEN_PARAMETER_CHANGED,
    EVALUATION_DIFFERS,
    RANKS_DIFFER,
    LOSS_DIVERGES,
    LOSS_PLATEAU,
    LOSS_OSCILLATES,
    LOSS_BROADCAST,
    LOSS_ACTIVATION,
    LOSS_TARGET,
    LOSS_AT_START,
    CHANGE_NEGLIGIBLE,
    WEIGHTS_EQUAL,
    NORM_OF_ONE,
    GRADIENT_DEPTH,
    TRAINING_IN_EVAL_MODE,
    INPUT_SCALE,
    BATCH_REPEATS,
    FEATURE_SCALE,
    FEATURE_CONSTANT,
    LINEAR_AFTER_LINEAR,
    OPTIMIZER_SETTINGS,
    EXPRESSION,
)
BY_NAME: dict[str, Condition] = {c.abbr: c for c in CONDITIONS} | {c.id: c for c in CONDITIONS}
NONFINITE = frozenset(c.abbr for c in CONDITIONS if c.nonfinite)
