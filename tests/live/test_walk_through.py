"""The walk-through of the docs, command by command: each prints what the page says it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from helpers.program import opscope
from live.conftest import TOKEN, Process, free_port, typed, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "walk-through.md"
DEFAULT_PORTS = ("8080", "50051")


class Reader:
    """Somebody who does what the page says."""

    def __init__(self, folder: Path, started: list[Process]) -> None:
        self.folder, self.started = folder, started
        self.ports = [str(free_port()), str(free_port())]
        self.running: list[Process] = []

    def type(self, command: str, printed: list[str]) -> None:
        words = [self._with_ports(word) for word in shlex.split(command)][1:]
        expected = [self._pattern(line) for line in printed]
        if words[0] == "serve" or "--wait" in words:
            ports = ("--port", self.ports[0], "--debugger-port", self.ports[1])
            process = Process(self.folder, *words, *(ports if words[0] == "serve" else ()))
            self.started.append(process)
            self.running.append(process)
            try:
                wait_for(lambda: self._shows(process.text, expected), 60)
            except AssertionError as error:
                raise AssertionError(f"{command} printed {process.text!r}") from error
        elif "status" in words:
            wait_for(lambda: self._shows(self._run(words), expected), 60)
        else:
            text = self._run(words)
            assert self._shows(text, expected), f"{command}\n{text}"

    def _run(self, words: list[str]) -> str:
        server = {"OPSCOPE_SERVER": f"127.0.0.1:{self.ports[0]}"}
        if words[0] == "run":
            done = opscope(*words, cwd=self.folder, OPSCOPE_TOKEN=TOKEN, **server)
            assert done.returncode == 0, done.stderr
            return done.stderr
        code, text = typed(self.folder, *words, **server)
        assert code == 0, text
        return text

    def _with_ports(self, text: str) -> str:
        for usual, port in zip(DEFAULT_PORTS, self.ports, strict=True):
            text = text.replace(f":{usual}", f":{port}")
        return text

    def _pattern(self, line: str) -> str:
        """A line as a regular expression; … stands for anything."""
        return ".*".join(re.escape(part) for part in self._with_ports(line).split("…"))

    def _shows(self, text: str, expected: list[str]) -> bool:
        return all(re.search(pattern, text) for pattern in expected)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def fixed(script: str, parts: list[str]) -> str:
    """The script with the lines that the page puts in the place of others."""
    returned, loss, warm_up = parts
    for old, new in (
        (r"        return torch.softmax.*\n", returned),
        (r"    loss = -.*\n", loss),
        (r"    optimizer.param_groups.*\n", warm_up),
    ):
        script, count = re.subn(old, new, script)
        assert count == 1, old
    return script


def test_the_page_is_right(tmp_path: Path, started: list[Process]) -> None:
    script, *parts = blocks("python")
    (tmp_path / "train.py").write_text(script)
    reader = Reader(tmp_path, started)
    *most, last = commands()
    for command, printed in most:
        reader.type(command, printed)
    assert reader.running[1].wait() == 130  # as it was told to
    assert "log of 0" in reader.running[1].text
    (tmp_path / "train.py").write_text(fixed(script, parts))
    reader.type(*last)
