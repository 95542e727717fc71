"""The collector of cycles is off only while very much is read."""

from __future__ import annotations

import gc

import pytest

from opscope.read.uncollected import uncollected


def test_it_is_off_inside_and_on_again_after() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_switches_it_on_again() -> None:
    with pytest.raises(ValueError), uncollected():
        raise ValueError
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
