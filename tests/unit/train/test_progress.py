from __future__ import annotations

import pytest

from opscope.train.progress import Progress


def test_a_bar_is_drawn_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("epoch 1/2", 4, True) as bar:
        for _ in range(4):
            bar.advance(lambda: ", loss 0.5")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("steps/s, loss 0.5\n")
    assert f"epoch 1/2 [{'=' * 24}] 4/4, " in shown.err


def test_without_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("evaluation", None, True) as bar:
        bar.advance()
    assert "evaluation 1 steps, " in capsys.readouterr().err


@pytest.mark.parametrize("shown", [False, None])
def test_nothing_where_nobody_looks(shown: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("x", 2, shown) as bar:
        bar.advance(lambda: pytest.fail("asked for nothing"))
    assert capsys.readouterr().err == ""
