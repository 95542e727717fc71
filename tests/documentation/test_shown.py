"""What counts as the same text."""

from __future__ import annotations

import pytest

from documentation.shown import difference, missing, same, wider


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("max 0.651153 mean 0.2012", "max 0.651154 mean 0.2011", True),
        ("max 0.65", "max 0.75", False),
        ("5 zeros", "6 zeros", False),
        ("loss is 1.13…", "loss is 1.1387115716934204", True),
        ("loss is 1.13…", "loss is 1.2387115716934204", False),
        ("took 3.2 s, 46.0 MB", "took 41 s, 4,600.5 MB", True),
        (
            "process 4711 of train-20261116-031502-5f2c90aa",
            "process 1 of train-20271116-031502-aa2c90",
            True,
        ),
        ("op0.192.0.1794759725898243.output", "op0.192.0.1794848929432842.output", True),
        ("op0.192.0.1794759725898243.output", "op0.193.0.1794848929432842.output", False),
        ("code …turns_nan.py:15", "code examples/turns_nan.py:15", True),
        ("code …turns_nan.py:15", "code examples/turns_nan.py:16", False),
        ("   3  TO   div", " 3 TO   div", True),
        ("no hits", "nohits", False),
    ],
)
def test_a_line(shown: str, printed: str, agree: bool) -> None:
    assert same(shown, printed) is agree


def test_lines_that_are_left_out() -> None:
    assert difference(["a", "…", "d"], ["a", "b", "c", "d"]) == ""
    assert difference(["…", "d"], ["d"]) == ""
    assert "but there came\nc" in difference(["a", "b"], ["a", "c"])
    assert difference(["a"], ["a", "b"]) == "after what is shown there came\nb"
    assert "nothing" in difference(["a", "b"], ["a"])


def test_an_excerpt_is_in_order() -> None:
    assert missing(["a", "c"], ["a", "b", "c"]) == ""
    assert missing(["c", "a"], ["a", "b", "c"]) == "a"


def test_a_wider_line_has_the_same_words_or_more() -> None:
    assert wider(
        "3  Default/ne…op0  ho…r Inf: 1", "3   0  Default/network/log-op0   holds NaN or Inf: 1"
    )
    assert not wider("3  Default/ne…op0  1", "3  0  Default/network/log-op0  2")
