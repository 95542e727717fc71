"""A run whose ranks are gone has nothing to compare, and says so."""

from __future__ import annotations

from opscope.views.rank_compare import compare_ranks


def test_no_ranks_have_no_differences() -> None:
    assert compare_ranks([]) == {"ranks": [], "differences": [], "steps": 0}
