"""docs/checking.md names every condition, with its parameters and defaults."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from opscope.commands import check, hits
from opscope.judge.catalogue import CONDITIONS, Condition
from opscope.judge.parsing import SELECT_KEYS

TEXT = (Path(__file__).parents[3] / "docs/checking.md").read_text()
LINES = [line for line in TEXT.splitlines() if line.startswith("| `")]
ROWS = {line.split("`")[1]: line for line in reversed(LINES)}


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: c.abbr)
def test_conditions(condition: Condition) -> None:
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", ROWS[condition.abbr])[1:-1]]
    assert cells[0] == f"`{condition.abbr}` {condition.id}"
    parameters = cells[3]
    if parameters.startswith("as "):
        parameters = ROWS[parameters.split("`")[1]]
    for parameter in condition.parameters:
        default = "" if parameter.default is None else f" ({parameter.default:g})"
        default = default.replace("1e-09", "1e-9").replace("1e-05", "1e-5").replace("1e-08", "1e-8")
        default = default.replace("0.0001", "1e-4").replace("1e-06", "1e-6")
        assert f"`{parameter.name}`{default}" in parameters


def test_selections_and_options() -> None:
    assert all(f"| `{key}` |" in TEXT for key in SELECT_KEYS)
    for module in (check, hits):
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        for action in parser._actions:
            if action.option_strings and "--help" not in action.option_strings:
                assert action.option_strings[0] in TEXT
