"""`python …` in a process of its own that need not import torch: its parent has done so before.

That takes a third of the time. What is tested must not depend on when torch is imported.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from helpers.program import clean_environment

_SERVER = Path(__file__).with_name("fork_server.py")
_STREAMS = ("stdin", "stdout", "stderr")

Done = subprocess.CompletedProcess[str]
Words = Sequence[str | Path]


class _Server:
    """The process that forks, one for each process that runs tests."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, _SERVER],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)

    def run(
        self, processes: Sequence[tuple[Words, dict[str, str]]], folder: Path, stdin: str = ""
    ) -> list[Done]:
        """Run processes, each by its words and variables, at the same time."""
        with tempfile.TemporaryDirectory() as around:
            asked = []
            for number, (words, environ) in enumerate(processes):
                files = [Path(around) / f"{stream}-{number}" for stream in _STREAMS]
                files[0].write_text(stdin)
                asked.append(
                    {
                        "words": [str(word) for word in words],
                        "folder": str(folder),
                        "environ": environ,
                        "files": [str(file) for file in files],
                    }
                )
            codes = map(int, self._answer(asked).split())
            return [
                Done(each["words"], code, *(_text(file) for file in each["files"][1:]))
                for each, code in zip(asked, codes, strict=True)
            ]

    def start(self, words: Words, environ: dict[str, str], folder: Path, log: Path) -> int:
        """Start a process that writes to a log, in a session of its own; its id."""
        asked = {
            "words": [str(word) for word in words],
            "folder": str(folder),
            "environ": environ,
            "files": [os.devnull, str(log), str(log)],
        }
        return int(self._answer(asked))

    def exit_code(self, child: int) -> int | None:
        """The exit code of a started process, if it is over."""
        answer = self._answer(child)
        return None if answer == "running" else int(answer)

    def _answer(self, question: object) -> str:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


_server: _Server | None = None


def _the_server() -> _Server:
    global _server
    if _server is None:
        _server = _Server()
    return _server


def _text(file: str | list[str] | dict[str, str]) -> str:
    return Path(str(file)).read_text(errors="replace")


class Started:
    """A forked process that goes on, in a session of its own."""

    def __init__(self, *words: str | Path, cwd: Path, log: Path, **environ: str) -> None:
        log.touch()
        self.pid = _the_server().start(words, environ, cwd, log)

    def poll(self) -> int | None:
        return _the_server().exit_code(self.pid)

    def wait(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), seconds)
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)


def forked_python(*words: str | Path, cwd: Path, stdin: str = "", **environ: str) -> Done:
    """Run Python, forked, and wait for it."""
    (done,) = _the_server().run([(words, environ)], cwd, stdin)
    return done


def forked_opscope(*words: str | Path, cwd: Path, stdin: str = "", **environ: str) -> Done:
    """Run `python -m opscope …`, forked, and wait for it."""
    return forked_python("-m", "opscope", *words, cwd=cwd, stdin=stdin, **environ)


def forked_ranks(ranks: Sequence[Words], cwd: Path) -> list[Done]:
    """Run `python -m opscope …` once for each rank, with the variables that torchrun sets."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": str(cwd),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "WORLD_SIZE": str(len(ranks)),
    }
    processes = [
        (("-m", "opscope", *words), common | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank, words in enumerate(ranks)
    ]
    return _the_server().run(processes, cwd)


def launched(*words: str | Path, cwd: Path, count: int = 2) -> Done:
    """Run `python -m opscope …` in several ranks, and put together what became of them."""
    done = forked_ranks([words] * count, cwd)
    out, err = ("".join(getattr(each, name) for each in done) for name in ("stdout", "stderr"))
    return Done(done[0].args, int(any(each.returncode for each in done)), out, err)
