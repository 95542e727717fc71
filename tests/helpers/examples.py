"""How many examples are tried in `make test`, and how many in `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def examples(count: int) -> int:
    """So many in `make test-long`, a third of them in `make test`."""
    return count if os.environ.get("OPSCOPE_ALL_EXAMPLES") else max(10, count // 3)


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """All cases for `parametrize`, of which `make test` runs one in so many."""
    return [
        pytest.param(case, marks=[pytest.mark.long] if number % share else [])
        for number, case in enumerate(cases)
    ]
