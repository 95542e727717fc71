"""What is delivered when a device fails before it has handed over its rows."""

from __future__ import annotations

from array import array
from typing import Any

from opscope.calls import Calls
from opscope.events import BaseSink, StepRecord
from opscope.messages import forget_said
from opscope.meter import Late
from opscope.pipeline import Pipeline
from opscope.stats.engine import NumpyEngine


class Closing(BaseSink):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step_end(self, record: StepRecord) -> None:
        self.told.append(f"step {record.step}")

    def close(self) -> None:
        self.told.append("close")


class Failing:
    """The ticket of a device that has failed."""

    def wait(self) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered\nand more")

    ready = wait


def test_steps_are_ended_and_sinks_closed_when_a_device_has_failed(monkeypatch, capfd) -> None:
    forget_said()
    sink = Closing()
    pipeline = Pipeline([sink], NumpyEngine())
    ticket: Any = Failing()
    late = Late(ticket, array("q"))
    monkeypatch.setattr(pipeline.meter, "end_step", lambda: ([], array("q"), late))
    monkeypatch.setattr(pipeline, "_deliver_early", lambda: None)
    pipeline.begin_step(0)
    pipeline.open(0)
    pipeline.end_step(lambda: StepRecord(0, Calls(), [], 0.0))
    pipeline.close()
    assert sink.told[-1] == "close"
    said = capfd.readouterr().err
    assert said.count("the device has failed (CUDA error: device-side assert triggered)") == 1
