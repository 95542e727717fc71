"""Conditions on training as a whole."""

from __future__ import annotations

from made_numbers import INF, NAN

from opscope.judge.catalogue import BY_NAME
from opscope.judge.conditions.gradient_not_cleared import accumulated
from opscope.judge.conditions.loss_spike import loss_spike
from opscope.judge.conditions.parameter_unchanged import never_changes
from opscope.judge.conditions.parameter_without_gradient import without_gradient
from opscope.judge.conditions.parameter_without_optimizer import without_optimizer

SPIKE = BY_NAME["LS"].defaults


def test_a_spike_is_far_above_the_window() -> None:
    before = [2.0 + 0.01 * (i % 7) for i in range(40)]
    assert loss_spike(2.1, before, SPIKE) is None
    assert loss_spike(3.9, before, SPIKE) is None
    above = loss_spike(40.0, before, SPIKE)
    assert above is not None and above > 20


def test_a_spike_needs_a_window_and_a_number() -> None:
    before = [2.0] * 19
    assert loss_spike(1000.0, before, SPIKE) is None
    assert loss_spike(1000.0, [*before, NAN], SPIKE) is None
    assert loss_spike(1000.0, [*before, 2.0], SPIKE) is not None
    assert loss_spike(NAN, [*before, 2.0], SPIKE) is None
    assert loss_spike(INF, [*before, 2.0], SPIKE) is None


def test_a_loss_that_falls_or_hardly_moves_never_spikes() -> None:
    assert loss_spike(0.001, [2.0] * 50, SPIKE) is None
    assert loss_spike(1.5, [1.0] * 50, SPIKE) is None
    assert loss_spike(-1.0, [-5.0] * 50, SPIKE) is None


def test_parameters_over_steps() -> None:
    steps = {"steps_ge": 5.0}
    assert never_changes(5, 5, steps)
    assert not never_changes(4, 4, steps)
    assert not never_changes(5, 6, steps)
    assert without_optimizer(True, False, 5, steps)
    assert not without_optimizer(True, True, 5, steps)
    assert not without_optimizer(False, False, 5, steps)
    assert not without_optimizer(True, False, 4, steps)
    assert without_gradient(5, 5, steps)
    assert not without_gradient(4, 5, steps)
    assert accumulated(5, steps)
    assert not accumulated(4, steps)
