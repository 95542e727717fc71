"""Somebody who types what a page says, in a folder of their own."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from documentation.markdown import ROOT
from helpers.forked import forked_opscope, forked_python
from helpers.program import clean_environment
from live.conftest import TOKEN, Process, free_port, wait_for
from opscope.commands import build_parser, main

SCENES = Path(__file__).parent / "scenes"
WIDTHS = (80, 200)
_USUAL_PORTS = ("8080", "50051")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


class Printed(NamedTuple):
    """What a command ended with and printed; where it depends on the terminal, for each width."""

    code: int
    texts: tuple[str, ...]


class Screen:
    """A terminal of some width: what is written to it, by stdout and stderr."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.stdout, self.stderr = _Stream(self, True), _Stream(self, False)


class _Stream(io.TextIOBase):
    def __init__(self, screen: Screen, is_terminal: bool) -> None:
        self._screen, self._is_terminal = screen, is_terminal

    def write(self, text: str) -> int:
        self._screen.parts.append(text)
        return len(text)

    def isatty(self) -> bool:
        return self._is_terminal


class Player:
    """A reader at a keyboard."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder = folder
        self.code = 0
        self.background: list[Process] = []
        self._ports = [str(free_port()), str(free_port())]
        self._viewed = "PORT"
        self._environment = {"HOME": str(folder), "XDG_CACHE_HOME": _cache()}
        token = folder / ".local" / "state" / "opscope" / "token"
        token.parent.mkdir(parents=True)
        token.write_text(TOKEN)
        for scene in ("any", Path(page).stem):
            if (SCENES / scene).is_dir():
                shutil.copytree(SCENES / scene, folder, dirs_exist_ok=True)
        shutil.copytree(ROOT / "examples", folder / "examples")
        for config in folder.glob("*.json"):
            config.write_text(self.real(config.read_text()))

    def real(self, text: str) -> str:
        """A text of the page with places and ports as they are here."""
        text = text.replace("/data/", f"{self.folder}/data/")
        for usual, port in zip(_USUAL_PORTS, self._ports, strict=True):
            text = text.replace(f":{usual}", f":{port}")
        return text.replace(":PORT", f":{self._viewed}")

    def told(self, text: str) -> str:
        """What was printed here, as it would be where the page was written."""
        text = text.replace(f"{self.folder}/data/", "/data/")
        return text.replace(str(self.folder), "/home/me")

    def type(self, command: str) -> Printed:
        """Run one line."""
        if command == "echo $?":
            return Printed(0, (f"{self.code}\n",))
        environ, words = _split(self.real(command))
        printed = self._run(environ, words, self.real(command))
        self.code = printed.code
        return Printed(printed.code, tuple(self.told(text) for text in printed.texts))

    def _run(self, environ: dict[str, str], words: list[str], line: str) -> Printed:
        if words[0] == "make":
            return _dry_make(words)
        if words[:2] == ["pip", "install"]:
            return _known_extras(words[2:])
        if words[0] == "python":
            done = forked_python(*words[1:], cwd=self.folder, **self._environment, **environ)
            return Printed(done.returncode, (done.stdout + done.stderr,))
        if words[0] != "opscope" or "|" in words:
            return self._shell(line)
        return self._opscope(words[1:], environ)

    def _opscope(self, words: list[str], environ: dict[str, str]) -> Printed:
        verb = words[0]
        if verb in ("view", "serve") or "--wait" in words:
            return self._started(words, environ)
        if verb == "doctor":
            build_parser(verb).parse_args(words)
            return _doctor()
        if verb == "run":
            done = forked_opscope(*words, cwd=self.folder, **self._environment, **environ)
            return Printed(done.returncode, (done.stdout + done.stderr,))
        if verb == "ctl":
            return self._told_training(words, environ)
        both = [self._looked(words, width, environ) for width in WIDTHS]
        assert len({code for code, _ in both}) == 1, (words, both)
        return Printed(both[0][0], tuple(text for _, text in both))

    def _told_training(self, words: list[str], environ: dict[str, str]) -> Printed:
        """A command to a training, once; wait until it has done what it was told."""

        def status() -> str:
            return self._looked([*words[:2], "status"], WIDTHS[0], environ)[1]

        before = status()
        code, text = self._looked(words, WIDTHS[0], environ)
        if words[2] in ("step", "to", "next", "continue") and code == 0:
            wait_for(lambda: (now := status()) != before and "paused" in now, 60)
        return Printed(code, (text,))

    def _looked(self, words: list[str], width: int, environ: dict[str, str]) -> tuple[int, str]:
        """A verb that reads, in this process, as starting one is slow."""
        screen = Screen()
        server = {"OPSCOPE_SERVER": f"127.0.0.1:{self._ports[0]}", "OPSCOPE_TOKEN": TOKEN}
        variables = {**self._environment, **server, **environ, "COLUMNS": str(width)}
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, variables),
            contextlib.redirect_stdout(screen.stdout),
            contextlib.redirect_stderr(screen.stderr),
        ):
            code = main(words)
        return code, "".join(screen.parts)

    def _started(self, words: list[str], environ: dict[str, str]) -> Printed:
        """A command that goes on until it is told to end: what it says at first."""
        if words[0] == "serve":
            words = [*words, "--port", self._ports[0], "--debugger-port", self._ports[1]]
        process = Process(self.folder, *words, **self._environment, **environ)
        self.background.append(process)
        ready = "trainings connect" if words[0] == "serve" else "http://"
        wait_for(lambda: ready in process.text or process.process.poll() is not None, 60)
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", process.text):
            self._viewed = found[1]
        return Printed(process.process.poll() or 0, (process.text,))

    def _shell(self, line: str) -> Printed:
        """Any other command."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=clean_environment(**self._environment, PATH=path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Printed(done.returncode, (done.stdout + done.stderr,))


@contextlib.contextmanager
def playing(folder: Path, page: str) -> Iterator[Player]:
    """A reader whose programs end with them."""
    player = Player(folder, page)
    try:
        yield player
    finally:
        for process in player.background:
            process.kill()


def _split(command: str) -> tuple[dict[str, str], list[str]]:
    """The variables that are set for a command, and its words."""
    words = shlex.split(command, comments=True)
    count = next(i for i, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word))
    pairs = (word.split("=", 1) for word in words[:count])
    return dict(pairs), words[count:]


def _cache() -> str:
    """Where native code is that has been built already."""
    return os.environ.get("XDG_CACHE_HOME", "") or str(Path("~/.cache").expanduser())


@functools.cache
def _doctor() -> Printed:
    """What the doctor says of this machine; tests/integration/test_doctor_program.py asks more."""
    done = forked_opscope("doctor", cwd=ROOT)
    return Printed(done.returncode, (done.stdout + done.stderr,))


def _dry_make(words: list[str]) -> Printed:
    """What `make` would do: the target is there."""
    done = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return Printed(done.returncode, (done.stderr,))


def _known_extras(wanted: list[str]) -> Printed:
    """The package and the extras that `pip install` would ask for are there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for each in wanted:
        match = re.fullmatch(r"([\w-]+)(?:\[([\w,]+)\])?", each)
        assert match and match[1] == project["name"], each
        assert set((match[2] or "all").split(",")) <= set(project["optional-dependencies"]), each
    return Printed(0, ("",))


def last_run(folder: Path) -> Path:
    """The newest run below a folder."""
    return max((folder / "opscope-runs").iterdir(), key=lambda path: path.stat().st_mtime)
