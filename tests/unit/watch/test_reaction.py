"""Which hits end training."""

from __future__ import annotations

import pytest

from opscope.judge.catalogue import CONDITIONS, NONFINITE
from opscope.watch.reaction import Reaction, kinds_of


def test_kinds() -> None:
    assert kinds_of("nonfinite") == NONFINITE == {"TO", "OO", "WO", "GE", "LN"}
    assert kinds_of("all") == {condition.abbr for condition in CONDITIONS}
    assert kinds_of(" tl , WCL,") == {"TL", "WCL"}
    assert kinds_of("nonfinite,RD") == {*NONFINITE, "RD"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("TX", "TX is neither nonfinite, all nor a condition"), ("", "names no"), (" , ", "names no")],
)
def test_wrong_kinds(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kinds_of(text)


def test_what_stops() -> None:
    assert Reaction().stops_at("OO") and not Reaction().stops_at("TL")
    assert not Reaction("log").stops_at("OO")
    assert Reaction("stop", frozenset({"TL"})).stops_at("TL")
