"""Damaged recordings are read or refused in words: no traceback, no hang, no raw escapes.

`python tests/fuzz KIND FIRST LAST` does the same for some seeds and shows what fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.campaign import campaign, told
from fuzz.recorded import KINDS, record

FIRST = 20_000
"""Seeds of the long test are others than those of the short one."""


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_recordings(kind: str, tmp_path: Path) -> None:
    count = 50 if kind == "run" else 20
    failures = campaign(kind, record(kind, tmp_path), 0, count, few=4)
    assert not failures, told(failures)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_recordings(kind: str, tmp_path: Path) -> None:
    failures = campaign(kind, record(kind, tmp_path), FIRST, FIRST + 1000)
    assert not failures, told(failures)


def test_failures_are_found(tmp_path: Path) -> None:
    """What the workers report of a reader that fails: nothing here is of opscope."""
    from fuzz.worker import problem_with

    assert "ZeroDivisionError" in problem_with(lambda: 1 / 0)
    assert "exit code 1" in problem_with(lambda: 1)
    assert "raw" in problem_with(lambda: print("a\x1b[31mb"))
    assert "raw" in problem_with(lambda: print("a name\nFORGED"))
    assert "UnicodeEncodeError" in problem_with(lambda: print("\ud800"))
    assert problem_with(lambda: print("all is well")) == ""
