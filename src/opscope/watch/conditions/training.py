"""Conditions on training as a whole: losses, parameters and gradients over many steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from opscope.watch.outcome import Params


def loss_not_finite(loss: float, params: Params) -> bool:
    """A loss that is NaN or infinite (LN)."""
    return not math.isfinite(loss)


def loss_spike(loss: float, before: Sequence[float], params: Params) -> float | None:
    """How far a loss is above the losses before it, if that is too far (LS).

    In units of the spread of those losses: their median absolute deviation, but at least 5 % of
    the size of their median, so that a loss that hardly varies does not make every step a spike.
    A spike is also twice as large as any loss before it.
    """
    if before and loss <= 2.0 * before[-1] < math.inf:
        return None  # what nearly every step comes to
    usual = [value for value in before if math.isfinite(value)]
    if len(usual) < params["window_min"] or not math.isfinite(loss):
        return None
    if loss <= 2.0 * max(*usual, 0.0):
        return None
    middle = statistics.median(usual)
    deviation = statistics.median([abs(value - middle) for value in usual])
    unit = max(1.4826 * deviation, 0.05 * abs(middle), 1e-12)
    above = (loss - middle) / unit
    return above if above > params["deviations_gt"] else None


def never_changes(steps_unchanged: int, steps_seen: int, params: Params) -> bool:
    """A trainable parameter that has had one value since it was first seen (PU)."""
    return steps_seen >= params["steps_ge"] and steps_unchanged == steps_seen


def without_optimizer(has_gradient: bool, owned: bool, steps_seen: int, params: Params) -> bool:
    """A parameter with gradients that no optimizer updates (PO)."""
    return has_gradient and not owned and steps_seen >= params["steps_ge"]


def without_gradient(steps_without: int, steps_seen: int, params: Params) -> bool:
    """A parameter of an optimizer that has never had a gradient (PG)."""
    return steps_seen >= params["steps_ge"] and steps_without == steps_seen


def accumulated(steps_in_a_row: int, params: Params) -> bool:
    """Gradients that are added to those of the step before (GA)."""
    return steps_in_a_row >= params["steps_ge"]


def frozen_changes(frozen: bool, changed: bool, params: Params) -> bool:
    """A parameter that is frozen and changes all the same (FC)."""
    return frozen and changed


def evaluation_differs(random_operators: int, params: Params) -> bool:
    """An evaluation with dropout on: another pass over the same batch would differ (ED)."""
    return random_operators > 0


def ranks_differ(digests: Mapping[int, str], params: Params) -> bool:
    """A replicated parameter that is not the same on every rank (RD)."""
    return len(set(digests.values())) > 1
