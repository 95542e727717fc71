"""Rows of a step that lie in several places are looked at as if they lay in one."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from opscope.capture import hook
from opscope.rows import Rows
from opscope.stats.glance import Glance, Look, glance
from opscope.stats.record import ROW_DTYPE
from opscope.watch.sink import _beyond


def natively(records: np.ndarray) -> Glance:
    native = hook.load()
    if native is None:
        pytest.skip("there is no native code")
    return Glance._make(native.glance(records))


@pytest.mark.parametrize("look", [glance, natively])
@pytest.mark.parametrize("at", [0, 1, 4, 6])
def test_where_rows_are_parted_makes_no_difference(look: Look, at: int) -> None:
    records = np.zeros(6, ROW_DTYPE)
    records["valid"], records["call"], records["max"] = 1, range(6), range(6)
    parts = [Rows(part, None, [], [], array("q"), look=look) for part in np.split(records, [at])]
    for count in range(7):
        found, seen = _beyond(parts, count)
        assert found.tobytes() == records[count:].tobytes()
        assert seen == look(records[count:])


def test_no_rows_at_all() -> None:
    found, seen = _beyond([], 0)
    assert (len(found), seen) == (0, None)
