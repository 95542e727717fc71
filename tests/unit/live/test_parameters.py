"""Parameters of the step before: which are copied, and that a failure harms nobody."""

from __future__ import annotations

import pytest
import torch

from opscope.errors import OpscopeError
from opscope.events import Snapshot
from opscope.live.controller import Controller
from opscope.live.kept import NONE, KeptValues
from opscope.live.parameters import ParameterCopies


class Trained:
    """Parameters that count the steps."""

    def __init__(self, budget: int = 1 << 20) -> None:
        self.kept = KeptValues(budget)
        self.controller = Controller()
        self.history = ParameterCopies(self.kept, self.controller)
        self.tensors = {"a": torch.zeros(4), "b": torch.zeros(4)}
        self.history.snapshot = lambda: Snapshot(parameters=self.tensors)

    def step(self, number: int) -> None:
        self.kept.begin_step(number)
        for tensor in self.tensors.values():
            tensor.fill_(float(number))
        self.history.end_step(number)


def test_those_of_the_step_before_a_planned_hold() -> None:
    trained = Trained()
    trained.controller.run_until(3)
    for number in range(4):
        trained.step(number)
    assert trained.history.previous("a").tolist() == [2.0] * 4
    assert trained.history.current("a").tolist() == [3.0] * 4


def test_without_a_plan_only_those_that_are_named() -> None:
    trained = Trained()
    trained.kept.keep(["p:b"])
    for number in range(3):
        trained.step(number)
    assert trained.history.previous("b").tolist() == [1.0] * 4
    with pytest.raises(OpscopeError, match="value not kept"):
        trained.history.previous("a")
    with pytest.raises(OpscopeError, match="there is no parameter"):
        trained.history.previous("c")


def test_before_the_second_step_there_is_none() -> None:
    trained = Trained()
    trained.controller.run_until(0)
    trained.step(0)
    with pytest.raises(OpscopeError, match="no step has ended"):
        trained.history.previous("a")


def test_large_parameters_are_copied_only_if_they_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained = Trained(budget=60)  # both take 32 bytes
    trained.kept.keep(["p:a"])
    trained.controller.run_until(1)
    trained.step(0)
    assert {key.subject for key in trained.kept.present()} == {"a"}
    assert "too large" in capsys.readouterr().err


def test_nothing_is_copied_where_nothing_is_to_be_kept() -> None:
    trained = Trained()
    trained.kept.keep([], NONE)
    trained.controller.run_until(1)
    trained.step(0)
    assert trained.kept.present() == []


def test_a_failure_is_told_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    trained = Trained()

    def fails() -> Snapshot:
        raise RuntimeError("no memory for this test")

    trained.history.snapshot = fails
    trained.controller.run_until(3)
    for number in range(3):
        trained.step(number)
    assert capsys.readouterr().err.count("no memory for this test") == 1
