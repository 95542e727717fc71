"""How many rows a terminal gets, and what is said of a node that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.commands import streaming, tables
from opscope.read.nodes import _missing


class Named:
    """A node, as far as its name goes."""

    def __init__(self, name: str) -> None:
        self.name = name


def shown(columns: int, rows: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[str]:
    """The lines that a terminal of 80 columns gets of a table."""
    monkeypatch.setattr(streaming, "terminal_width", lambda stream: 80)
    monkeypatch.setattr(tables, "terminal_width", lambda stream: 80)
    names = [f"column_{place}" for place in range(columns)]
    streaming.stream_table(names, iter([tuple(range(columns))] * rows))
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines


def test_rows_that_are_lists_of_their_own(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    lines = shown(29, 1500, monkeypatch, capsys)
    assert len(lines) <= 201
    assert lines[-1] == "and 1,494 more rows; --csv and --json print all"


def test_rows_that_fit(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert shown(3, 1500, monkeypatch, capsys)[-1].startswith("and 1,300 more rows")
    assert len(shown(3, 200, monkeypatch, capsys)) == 201


def test_only_what_is_alike_is_suggested() -> None:
    nodes: Any = [Named("Default/sin-op0"), Named("Default/neg-op9"), Named("Default/conv3-op0")]
    assert _missing("nope", nodes, "last") == (
        "no node matches nope; list them with: opscope nodes last"
    )
    assert _missing("convv3-op0", nodes, "last").splitlines() == [
        "no node matches convv3-op0; did you mean",
        "  Default/conv3-op0",
        "or list them with: opscope nodes last",
    ]
