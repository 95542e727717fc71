"""What is advised at a hit."""

from __future__ import annotations

import pytest

from opscope.judge.catalogue import CONDITIONS
from opscope.views.advice import advice_for, summary_of


@pytest.mark.parametrize("name", [condition.abbr for condition in CONDITIONS])
def test_every_condition_has_advice_and_a_meaning(name: str) -> None:
    assert advice_for({"condition": name})[-1] in ".?" and summary_of(name)


def test_the_verdict_on_this_very_hit_knows_better() -> None:
    verdict = {"node": 7, "advice": "clamp the input"}
    hit = {"condition": "TO", "node": 7, "verdict": verdict}
    assert advice_for(hit) == "clamp the input"
    assert advice_for({**hit, "node": 8}) != "clamp the input"


def test_an_unknown_condition_has_advice_too() -> None:
    assert advice_for({"condition": "??", "verdict": "odd"}) and summary_of("??") == ""
