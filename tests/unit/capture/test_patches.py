"""Wrappers of calls of modules that others may pass by."""

from __future__ import annotations

import functools
from typing import Any

from opscope.capture.patches import let_pass_by, passed_by


class Owner:
    finds_scopes = False


def below(*args: Any) -> tuple[Any, ...]:
    return args


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


def test_only_the_wrapper_itself_is_passed_by() -> None:
    owner, wrapper = Owner(), wrapped(below)
    let_pass_by(wrapper, below, owner)
    assert passed_by(wrapper) == (below, owner)
    somebody = wrapped(wrapper)  # it has the attributes of what it wraps
    assert passed_by(somebody) == (somebody, None)
    assert passed_by(below) == (below, None)
