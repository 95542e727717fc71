"""Every row of the page for people from MindSpore that says "now" has a test that shows it.

Rows on settings, conditions, functions and classes are compared with the code in
`test_docs_seeds.py`; here are the others, each with the test that would fail if it were not so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_docs_seeds import tables

from opscope.judge.catalogue import BY_NAME

TESTS = Path(__file__).parents[1]
ROWS = (Path(__file__).with_name("seeds_rows.txt")).read_text()
"""Under each heading of the page a line for each row, with its test."""


def listed() -> dict[str, dict[str, str]]:
    """Heading → row → test."""
    found: dict[str, dict[str, str]] = {}
    for part in ROWS.split("\n\n"):
        heading, *lines = part.strip().splitlines()
        found[heading.removeprefix("# ")] = dict(line.split(" → ", 1) for line in lines)
    return found


SHOWN_BY = listed()


@pytest.mark.parametrize("heading", SHOWN_BY)
def test_every_row_that_is_now_has_its_test(heading: str) -> None:
    rows = tables("seeds.md")[heading]
    found = [name.replace("`", "") for name, _, status, _ in rows if status == "now"]
    shown = SHOWN_BY[heading]
    assert [name for name in found if name not in shown and name.split(":")[0] not in shown] == []
    assert len(found) == len(shown)


def test_those_tests_are_there() -> None:
    for test in {test for rows in SHOWN_BY.values() for test in rows.values()}:
        file, name = test.split("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE), test


def test_every_condition_of_the_guide_is_there() -> None:
    rows = tables("seeds.md")["Watchpoint conditions"]
    assert len(rows) == 17
    for name, _, status, _ in rows:
        assert status == "now" and name.strip("`") in BY_NAME, name


def test_nothing_is_left_for_later() -> None:
    every = [row for rows in tables("seeds.md").values() for row in rows if len(row) == 4]
    assert [name for name, _, status, _ in every if status == "later"] == []
