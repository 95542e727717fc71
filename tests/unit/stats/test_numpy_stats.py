"""What only arrays have; rows in general are tested in test_rows.py."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from reference import assert_row

from opscope.stats.numpy_stats import row_of


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i2", "u8"])
def test_arrays_that_run_backwards_or_are_swapped(dtype: str) -> None:
    array = np.array([3, 0, 7, 100], dtype)
    for view in (array[::-1], array.reshape(2, 2)[::-1].T):
        assert_row(row_of(view), array.tolist())


def test_no_warning_and_no_error_whatever_the_user_set() -> None:
    nasty = np.array([np.nan, np.inf, 1.7e308, -1.7e308, 5e-324])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        row_of(nasty)
        row_of(nasty[2:])
        row_of(nasty.astype(complex))
        row_of(np.array([2**63 - 1, -(2**63)]))


def test_what_has_no_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="<U1"):
        row_of(np.array(["a"]))
