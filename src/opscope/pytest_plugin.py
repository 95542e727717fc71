"""Fixtures for tests of training code; pytest finds them where opscope is installed.

def test_my_training(assert_finite, assert_params_change):
    with assert_finite(), assert_params_change(model):
        train(model)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest


@pytest.fixture
def assert_finite() -> Callable[..., AbstractContextManager[None]]:
    """`with assert_finite():` fails if NaN or Inf turns up in training inside."""
    from opscope.train import testing

    return testing.assert_finite


@pytest.fixture
def assert_params_change() -> Callable[..., AbstractContextManager[None]]:
    """`with assert_params_change(model):` fails if a parameter stays as it is."""
    from opscope.train import testing

    return testing.assert_params_change


@pytest.fixture
def assert_runs_match() -> Callable[..., None]:
    """`assert_runs_match(train)` fails unless two runs are equal bit by bit."""
    from opscope.train import testing

    return testing.assert_runs_match
