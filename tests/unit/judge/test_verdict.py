"""The verdict as a person reads it, and how far a fault is said to have gone."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from helpers.watched import Formula, one_step, train, watched
from opscope.judge.origin.verdict import shown_place, text

NAN = math.nan


def line_of(words: str) -> int:
    """The line of this file that ends in a mark."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {words}")]
    return number


def test_the_last_line_is_the_origin(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    found = one_step(
        tmp_path,
        lambda p, x: p * x.log(),  # the line of the origin
        [0.0, 1.0],
    )
    line = line_of("the line of the origin")
    lines = text(found.verdict)
    assert lines[-1] == f"origin: {Path(__file__).name}:{line}"
    printed = capfd.readouterr().err.splitlines()
    start = printed.index(lines[0])
    assert printed[start : start + len(lines)] == lines
    assert lines[0] == "NaN or Inf in step 0, rank 0: it began here"
    assert f"  code      {Path(__file__).name}:{line}  lambda p, x: p * x.log()," in lines[3]
    assert "  input 0   batch input0: float32 2, min 0 max 1 mean 0.5, 1 zero" in lines
    assert "  output 0  float32 2, min -inf max 0 mean 0, 1 zero, 1 -Inf" in lines


def test_a_long_path_is_not_wrapped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ("a_very_long_name_of_a_folder" * 6)
    folder.mkdir()
    script = folder / "train.py"
    script.write_text("def loss(p, x):\n    return p * x.log()\n")
    names: dict = {}
    exec(compile(script.read_text(), str(script), "exec"), names)
    one_step(tmp_path, names["loss"], [0.0])
    assert f"\norigin: {script}:2\n" in capfd.readouterr().err


def test_what_it_reached(tmp_path: Path) -> None:
    loss = one_step(tmp_path / "a", lambda p, x: p * x.log(), [0.0, 1.0]).verdict
    assert loss["reached"]["loss"] and loss["reached"]["gradients"] == 1
    vanishing = lambda p, x: p + x + 1 / ((p + 2) * 1e30 * 1e30)  # noqa: E731 - 1 / Inf is 0
    assert one_step(tmp_path / "b", vanishing, [0.0, 1.0]).hits == []
    nowhere = one_step(tmp_path / "d", vanishing, [0.0, 1.0], watch="OO").verdict
    assert not any(nowhere["reached"].values())
    assert "no gradient, parameter or buffer" in "\n".join(text(nowhere))
    assert nowhere["spread"]["values"] == 1
    gradient = one_step(tmp_path / "c", lambda p, x: (p * x).sqrt(), [0.0, 1.0]).verdict
    assert not gradient["reached"]["loss"] and gradient["reached"]["gradients"] == 1
    assert loss["spread"]["values"] > nowhere["spread"]["values"]
    assert loss["spread"]["of"] >= loss["spread"]["values"]


def test_an_update_that_spoils_parameters(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log") as found:
        train(1, lambda y, step: y.sum() * 1e3, rate=1e38)
    assert found.verdict["reached"]["parameters"] == 2
    assert "2 parameters" in "\n".join(text(found.verdict))


def test_the_operators_before(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: ((x + 1) * 2 - 2).log() * p, [0.0, 1.0]).verdict
    names = [entry["name"].rpartition("/")[2] for entry in verdict["before"]]
    assert names[-3:] == ["add-op0", "mul-op0", "sub-op0"]
    assert len(names) <= 5
    assert (verdict["before"][-1]["min"], verdict["before"][-1]["max"]) == (0, 2)


def test_where_values_began_to_grow(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        model = Formula(lambda p, x: (p * x).square())
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for step in range(9):
            optimizer.zero_grad()
            size = 1.0 if step < 5 else 1e5 ** (step - 4)
            model(torch.full((3,), size)).sum().backward()
            optimizer.step()
    assert found.stopped
    odd = found.verdict["abnormal"]
    assert odd["step"] == 5
    assert odd["name"].endswith("/mul-op0") or odd["name"].endswith("full-op0")
    assert odd["largest"] >= 1e4 and odd["before"] <= 10
    line = next(line for line in text(found.verdict) if line.startswith("  abnormal"))
    assert line.startswith("  abnormal  since step 5: ")


def test_steady_values_are_not_called_abnormal(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        train(6, lambda y, step: (y * 0).log().sum() if step == 5 else y.sum())
    assert found.verdict["step"] == 5
    assert found.verdict["abnormal"] is None


def test_what_came_from_outside(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: p * x, [NAN, 1.0]).verdict
    lines = text(verdict)
    assert lines[0].endswith("it came from outside, with the batch input0")
    assert verdict["inputs"][1]["source"] == "batch input0"
    assert verdict["inputs"][1]["nan"] == 1


def test_a_backward_only_fault_names_the_forward_line(tmp_path: Path) -> None:
    found = one_step(
        tmp_path,
        lambda p, x: (p * x).sqrt(),  # the line of the root
        [0.0, 1.0],
    )
    lines = text(found.verdict)
    assert lines[-1].endswith(f"{Path(__file__).name}:{line_of('the line of the root')}")
    assert any(line.startswith("  gradient of  ") for line in lines)


def test_what_is_left_alone_is_not_the_origin(tmp_path: Path) -> None:
    def formula(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x.log()  # opscope: ignore
        return p * x.rsqrt()

    assert one_step(tmp_path, formula, [0.0, 1.0]).verdict["op_type"] == "rsqrt"


def test_what_is_left_alone_is_named_if_it_is_all_there_is(tmp_path: Path) -> None:
    found = one_step(
        tmp_path,
        lambda p, x: p * x.log(),  # opscope: ignore
        [0.0, 1.0],
    )
    assert "LN" in found.conditions
    assert found.verdict["op_type"] == "log"


def test_a_fault_of_an_evaluation_is_not_the_origin_of_one_in_training(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log") as found:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with torch.no_grad():
            (model.eval()(torch.zeros(4, 3)) * 0).log()
        (model.train()(torch.ones(4, 3)) * 0).rsqrt().sum().backward()
        optimizer.step()
    assert found.verdict["op_type"] == "rsqrt"


def test_places_are_as_short_as_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    assert shown_place("/tmp/a/b.py:3") == "a/b.py:3"
    assert shown_place("/elsewhere/b.py:3") == "/elsewhere/b.py:3"
    assert shown_place("") == ""
    assert re.fullmatch(r"<stdin>:1|.*<stdin>:1", shown_place("<stdin>:1"))


def test_what_is_beside_training_is_no_hit(tmp_path: Path) -> None:
    clipped = one_step(tmp_path / "a", lambda p, x: p * x.log().clamp(-9, 9), [0.0, 1.0])
    assert clipped.hits == []
    used = one_step(tmp_path / "b", lambda p, x: (p * x).log().clamp(-9, 9), [0.0, 1.0])
    assert used.verdict["op_type"] == "div", "1 / 0 in the gradient of log, times 0"
    assert used.verdict["forward"].endswith("/log-op0")
