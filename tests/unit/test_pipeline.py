"""What is delivered when a device fails before it has handed over its rows."""

from __future__ import annotations

import functools
import os
import signal
from array import array
from collections.abc import Callable
from typing import Any

import pytest

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


class TimedOutError(Exception):
    """Raised by a handler of the script's."""


def time_out(*_: Any) -> None:
    raise TimedOutError


class Handler:
    def method(self, *_: Any) -> None:
        raise TimedOutError

    def __call__(self, *_: Any) -> None:
        raise TimedOutError


class Interrupted(Closing):
    """A signal comes while it does its work."""

    def step_end(self, record: StepRecord) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        super().step_end(record)


@pytest.mark.parametrize(
    "handler", [time_out, Handler().method, Handler(), functools.partial(time_out, 1)]
)
def test_what_a_handler_of_the_script_raises_is_the_scripts(
    handler: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    """It goes its way, and whatever was under way stays in use."""
    sink = Interrupted()
    pipeline = Pipeline([sink], NumpyEngine())
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        pipeline.begin_step(0)
        pipeline.open(0)
        with pytest.raises(TimedOutError):
            pipeline.end_step(lambda: StepRecord(0, Calls(), [], 0.0))
    finally:
        signal.signal(signal.SIGUSR1, before)
    pipeline.close()
    assert sink.told[-1] == "close" and "switched off" not in capfd.readouterr().err


class Broken(BaseSink):
    """Has no callback at the end of a step, only a fault."""

    @property
    def step_end(self) -> Any:  # type: ignore[override]
        raise RuntimeError("broken")


def test_a_sink_whose_callback_cannot_be_had_is_dropped() -> None:
    dropped: list[Exception] = []
    sink = Broken()
    pipeline = Pipeline([sink], NumpyEngine())
    pipeline.on_drop = lambda which, error: dropped.append(error)
    pipeline.begin_step(0)
    pipeline.open(0)
    pipeline.end_step(lambda: StepRecord(0, Calls(), [], 0.0, False, True, False))
    pipeline.close()
    assert [str(error) for error in dropped] == ["broken"]
