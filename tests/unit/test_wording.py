"""Counts, sizes and times for people."""

from __future__ import annotations

import pytest

from opscope.messages import say_lines
from opscope.wording import counted, duration, size, three_digits


@pytest.mark.parametrize("count", [0, 1, 1023, 1 << 20, 2048 << 20, (1 << 40) - 1, 5000 << 40])
def test_sizes_have_no_exponent(count: int) -> None:
    assert "e" not in size(count)


def test_the_budget_of_a_run() -> None:
    assert size(2 << 30) == "2 GiB"
    assert size(2050 << 20) == "2 GiB"
    assert size(500_000_000) == "477 MiB"


@pytest.mark.parametrize("seconds", [0.9996, 0.99999, 999.7, 1e6])
def test_times_have_no_exponent(seconds: float) -> None:
    assert "e" not in duration(seconds)


def test_digits() -> None:
    assert [three_digits(n) for n in (0.1234, 99.4, 99.96, 1000.4)] == [
        "0.123",
        "99.4",
        "100",
        "1000",
    ]


def test_one_is_one() -> None:
    assert [counted(n, "zero") for n in (0, 1, 2000)] == ["0 zeros", "1 zero", "2,000 zeros"]
    assert counted(1, "row is", "rows are") == "1 row is"


def test_a_verdict_is_folded_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "  operator  Default/" + "a" * 40,
        "  advice    " + "some words " * 5,
        "origin: x.py:1",
    ]
    say_lines(lines, indent=12)
    assert capsys.readouterr().err.splitlines() == [*lines]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    say_lines(lines, indent=12)
    shown = capsys.readouterr().err.splitlines()
    assert (shown[0], shown[-1]) == (lines[0], lines[-1])
    assert shown[-3:-1] == [
        "  advice    some words some words some",
        "            words some words some words",
    ]
