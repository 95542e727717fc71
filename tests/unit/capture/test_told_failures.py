"""Failures inside opscope: told once, apart from those of devices and of the script."""

from __future__ import annotations

import os
import signal

import pytest

from opscope.capture import failures
from opscope.messages import forget_said


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    forget_said()


def raised(code: str, file: str) -> Exception:
    """Return an exception that code of this file has raised."""
    try:
        exec(compile(code, file, "exec"), {})
    except (ArithmeticError, RuntimeError) as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_exception_is_ours_unless_the_script_raised_it() -> None:
    ours = raised("1 / 0", failures.__file__)
    assert failures.is_ours(ours)
    assert not failures.is_ours(raised("1 / 0", "/home/someone/train.py"))
    assert not failures.is_ours(KeyboardInterrupt())


def test_a_failure_is_told_once_for_each_place(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        failures.report_failure(raised("1 / 0", "one.py"))
    failures.report_failure(raised("\n1 / 0", "one.py"))
    told = capsys.readouterr().err
    assert told.count("internal error") == 2
    assert "ZeroDivisionError: division by zero (one.py:1)" in told
    assert "(one.py:2); that operator is not recorded, training goes on" in told


def test_an_error_of_a_device_is_none_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    text = "CUDA error: an illegal memory access\nCUDA kernel errors might be reported later"
    for _ in range(2):
        failures.report_failure(raised(f"raise RuntimeError({text!r})", "one.py"))
    told = capsys.readouterr().err
    assert told.count("the device has failed (CUDA error: an illegal memory access)") == 1
    assert "internal error" not in told and "might be" not in told


def test_what_the_handler_of_a_signal_raised_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """It may be that of a library, such as of a DataLoader whose worker has died."""
    library = {"__name__": "torch.utils.data", "__file__": failures.__file__}
    exec(compile("def handler(*_): 1 / 0", failures.__file__, "exec"), library)
    before = signal.signal(signal.SIGUSR1, library["handler"])
    try:
        with pytest.raises(ZeroDivisionError) as caught:
            os.kill(os.getpid(), signal.SIGUSR1)
        assert not failures.is_ours(caught.value)
        with pytest.raises(ZeroDivisionError):
            failures.report_failure(caught.value)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert capsys.readouterr().err == ""
