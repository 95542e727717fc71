"""Ctrl-C in a verb, also where a library would make nothing of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.program import clean_environment
from opscope.commands import main
from opscope.commands.interrupt import hearing_ctrl_c

SWALLOWS = """
import pathlib, time
pathlib.Path("begun").touch()
try:
    time.sleep(60)
except BaseException:  # as torch does while it looks for NumPy
    pass
"""


def ended_by_ctrl_c(folder: Path, *words: str, mark: str = "begun") -> tuple[int, str, str]:
    """What becomes of a verb that gets Ctrl-C once there is a file `mark`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "opscope", *words],
        cwd=folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 60
        while not (folder / mark).exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_while_the_doctor_imports_a_package_that_swallows_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(SWALLOWS)
    code, out, err = ended_by_ctrl_c(tmp_path, "doctor")
    assert (code, err) == (130, "opscope: interrupted\n")
    assert out.startswith("opscope ") and name not in out.lower().replace("python", "")


def test_one_that_is_swallowed_is_raised_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), hearing_ctrl_c():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_that_nobody_is_to_hear_of() -> None:
    """As under nohup, or in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hearing_ctrl_c():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_before_a_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback of ours would say nothing of the script."""

    def press(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("opscope.commands.run.begin", press)
    (tmp_path / "train.py").write_text("print('it runs')")
    assert main(["run", str(tmp_path / "train.py")]) == 130
    assert capsys.readouterr() == ("", "opscope: interrupted\n")
