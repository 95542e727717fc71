"""Exceptions as plain data."""

from __future__ import annotations

from opscope.record.exception import describe


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_a_very_long_message_is_shortened() -> None:
    about = describe(raised("x" * 3_000_000))
    assert len(about["message"]) == 2000 and len(about["traceback"]) < 110_000
    assert about["traceback"].startswith("Traceback") and about["traceback"].endswith("xxx\n")
    assert "characters left out]" in about["traceback"]


def test_a_message_of_usual_length_stays() -> None:
    assert describe(raised("y" * 1000))["traceback"].endswith("y" * 1000 + "\n")
