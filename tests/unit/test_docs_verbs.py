"""The docs know every verb, and every option of those that have a page or a section."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from opscope.commands import VERBS, build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def options(verb: str) -> set[str]:
    """The options of a verb, but --help."""
    actions = build_parser(verb)._actions
    verbs = next(a for a in actions if isinstance(a, argparse._SubParsersAction))
    found = {o for a in verbs.choices[verb]._actions for o in a.option_strings if o[:2] == "--"}
    return found - {"--help"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_somewhere(verb: str) -> None:
    assert any(f"opscope {verb}" in page.read_text() for page in PAGES)


@pytest.mark.parametrize("verb", ["run", "doctor"])
def test_every_option_is_on_the_page_about_running(verb: str) -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    assert [option for option in sorted(options(verb)) if option not in text] == []
