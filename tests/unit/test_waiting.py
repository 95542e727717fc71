"""The line that is shown while something takes long."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from helpers.program import clean_environment
from helpers.terminal import in_terminal
from opscope import commands, waiting
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.waiting import Waiting

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def until(terminal: Terminal, text: str) -> str:
    end = time.monotonic() + 20
    while text not in terminal.getvalue():
        assert time.monotonic() < end, terminal.getvalue()
        time.sleep(0.01)
    return terminal.getvalue()


def test_it_says_what_how_far_and_how_long() -> None:
    with redirect_stderr(Terminal()) as terminal:
        with Waiting("checking", after=0):
            waiting.show(1, 2)
            until(terminal, f"\r\x1b[Kchecking [{'#' * 12}{'.' * 12}] 50 %, 0 s")
        assert terminal.getvalue().endswith("\r\x1b[K"), "nothing is left of it"


def test_parts_are_counted() -> None:
    with redirect_stderr(Terminal()) as terminal, Waiting("building", after=0):
        waiting.expect(3)
        waiting.expect(1)
        waiting.advance()
        until(terminal, "25 %")


def test_the_first_moments_are_silent() -> None:
    with redirect_stderr(Terminal()) as terminal:
        with Waiting("checking"):
            pass
        assert terminal.getvalue() == ""


def test_where_nobody_looks_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("checking", after=0):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_terminal_that_cannot_draw_a_line_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(Terminal()) as terminal, Waiting("checking", after=0):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_one_within_another() -> None:
    with redirect_stderr(Terminal()) as terminal, Waiting("outer", after=0):
        until(terminal, "outer")
        with Waiting("inner", after=0):
            until(terminal, "inner")
            seen = len(terminal.getvalue())
            time.sleep(0.3)
            assert "outer" not in terminal.getvalue()[seen:]


def test_what_is_said_meanwhile_has_a_line_of_its_own() -> None:
    with redirect_stderr(Terminal()) as terminal:
        with Waiting("starting", after=0):
            until(terminal, "starting")
            say("something")
        assert "\r\x1b[Kopscope: something\n" in terminal.getvalue()


def test_a_run_says_that_it_starts_before_anything_is_loaded_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(verb: str) -> None:
        until(terminal, "opscope: starting, 0 s")
        raise OpscopeError("enough")

    monkeypatch.setattr(commands, "SOON", 0)
    monkeypatch.setattr(commands, "build_parser", build)
    with redirect_stderr(Terminal()) as terminal:
        assert commands.main(["run", "train.py"]) == 2
    assert terminal.getvalue().endswith("\x1b[Kopscope: enough\n")


def test_a_command_as_one_part_of_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert waiting.main(["packages", sys.executable, "-c", "print('noise')"]) == 0
    assert capsys.readouterr().out == "packages: 0 s\n"
    assert waiting.main(["packages", sys.executable, "-c", "raise SystemExit('no room')"]) == 1
    assert capsys.readouterr().err == "packages: failed\nno room\n\n"


def test_a_part_of_the_set_up_is_one_line() -> None:
    """Without warnings, by a Python that has no package but the standard ones."""
    rule = '--eval=try: ; @$(PART) "a part" sh -c "echo noise; echo noise >&2"'
    words = ["make", "-s", rule, "try", f"PYTHON={sys.executable} -S"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a part: 0 s\n", "")


COMPILER = """#!/bin/sh
case "$*" in *--version*) echo fake; exit ;; esac
sleep 0.3
while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done
"""


def test_building_shows_how_far_it_has_come(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    environ = clean_environment(CXX=str(compiler), XDG_CACHE_HOME=str(tmp_path / "cache"))
    done = in_terminal([sys.executable, "-m", "opscope.native"], tmp_path, environ)
    assert done.code == 0, done.text
    assert "\x1b[Knative code [####" in done.text
    assert re.search(r" %, [1-9]\d* s", done.text)  # on a busy machine many
    last = done.text.rsplit("\x1b[K", 1)[1]
    assert [line.split(":")[0] for line in last.splitlines()] == ["statistics", "hook", "recorder"]
