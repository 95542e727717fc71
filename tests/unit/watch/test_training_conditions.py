"""Conditions on training as a whole."""

from __future__ import annotations

import pytest
from made_numbers import INF, NAN

from opscope.watch.catalogue import BY_NAME
from opscope.watch.conditions import training

SPIKE = BY_NAME["LS"].defaults


@pytest.mark.parametrize(
    ("loss", "expected"), [(1.0, False), (NAN, True), (INF, True), (-INF, True)]
)
def test_a_loss_that_is_not_finite(loss: float, expected: bool) -> None:
    assert training.loss_not_finite(loss, {}) is expected


def test_a_spike_is_far_above_the_window() -> None:
    before = [2.0 + 0.01 * (i % 7) for i in range(40)]
    assert training.loss_spike(2.1, before, SPIKE) is None
    assert training.loss_spike(3.9, before, SPIKE) is None
    above = training.loss_spike(40.0, before, SPIKE)
    assert above is not None and above > 20


def test_a_spike_needs_a_window_and_a_number() -> None:
    before = [2.0] * 19
    assert training.loss_spike(1000.0, before, SPIKE) is None
    assert training.loss_spike(1000.0, [*before, NAN], SPIKE) is None
    assert training.loss_spike(1000.0, [*before, 2.0], SPIKE) is not None
    assert training.loss_spike(NAN, [*before, 2.0], SPIKE) is None
    assert training.loss_spike(INF, [*before, 2.0], SPIKE) is None


def test_a_loss_that_falls_or_hardly_moves_never_spikes() -> None:
    assert training.loss_spike(0.001, [2.0] * 50, SPIKE) is None
    assert training.loss_spike(1.5, [1.0] * 50, SPIKE) is None
    assert training.loss_spike(-1.0, [-5.0] * 50, SPIKE) is None


def test_parameters_over_steps() -> None:
    steps = {"steps_ge": 5.0}
    assert training.never_changes(5, 5, steps)
    assert not training.never_changes(4, 4, steps)
    assert not training.never_changes(5, 6, steps)
    assert training.without_optimizer(True, False, 5, steps)
    assert not training.without_optimizer(True, True, 5, steps)
    assert not training.without_optimizer(False, False, 5, steps)
    assert not training.without_optimizer(True, False, 4, steps)
    assert training.without_gradient(5, 5, steps)
    assert not training.without_gradient(4, 5, steps)
    assert training.accumulated(5, steps)
    assert not training.accumulated(4, steps)
    assert training.frozen_changes(True, True, {})
    assert not training.frozen_changes(True, False, {})
    assert not training.frozen_changes(False, True, {})


def test_evaluation_and_ranks() -> None:
    assert training.evaluation_differs(1, {})
    assert not training.evaluation_differs(0, {})
    assert training.ranks_differ({0: "a", 1: "b"}, {})
    assert not training.ranks_differ({0: "a", 1: "a"}, {})
    assert not training.ranks_differ({0: "a"}, {})
