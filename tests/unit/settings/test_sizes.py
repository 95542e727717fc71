from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.settings.sizes import parse_size

FACTORS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


@given(st.integers(1, 10**6), st.sampled_from(sorted(FACTORS)), st.sampled_from(["", " "]))
def test_number_times_unit(number: int, unit: str, blank: str) -> None:
    assert parse_size(f"{number}{blank}{unit}") == number * FACTORS[unit]
    assert parse_size(f"{number}{unit.upper()}") == number * FACTORS[unit]


@pytest.mark.parametrize(
    ("value", "size"), [("2GiB", 2 * 2**30), ("1.5KiB", 1536), (" 500MB ", 500_000_000), (7, 7)]
)
def test_examples(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    "value", ["", "GiB", "2G", "2 XB", "-1", "1e9", "0", 0, -5, "0.1B", True, 2.5, None, [], "٣"]
)
def test_refused(value: object) -> None:
    with pytest.raises(ValueError, match="write a size such as"):
        parse_size(value)
