"""`python …` in a process of its own that need not import torch: its parent has done so before.

That takes a third of the time. What is tested must not depend on when torch is imported.
"""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers.program import clean_environment

_SERVER = Path(__file__).with_name("fork_server.py")


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
        self, words: list[str], folder: Path, stdin: str, environs: list[dict[str, str]]
    ) -> subprocess.CompletedProcess[str]:
        """Start a process for each of the `environs`, and wait for them."""
        assert self._process.stdin and self._process.stdout
        with tempfile.TemporaryDirectory() as around:
            files = [Path(around) / name for name in ("stdin", "stdout", "stderr")]
            files[0].write_text(stdin)
            asked = {
                "words": words,
                "folder": str(folder),
                "environs": environs,
                "files": list(map(str, files)),
            }
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            codes = [int(code) for code in self._process.stdout.readline().split()]
            _, out, err = (file.read_text(errors="replace") for file in files)
        code = codes[0] if len(codes) == 1 else int(any(codes))
        return subprocess.CompletedProcess(words, code, out, err)

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


def forked_python(
    *words: str | Path, cwd: Path, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Python, forked, and wait for it."""
    return _the_server().run([str(word) for word in words], cwd, stdin, [environ])


def forked_opscope(
    *words: str | Path, cwd: Path, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m opscope …`, forked, and wait for it."""
    return forked_python("-m", "opscope", *words, cwd=cwd, stdin=stdin, **environ)


def forked_ranks(*words: str | Path, cwd: Path, count: int = 2) -> subprocess.CompletedProcess[str]:
    """Run `python …` in several processes that are ranks, as torchrun would start them."""
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "TORCHELASTIC_RUN_ID": str(cwd),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    environs = [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return _the_server().run([str(word) for word in words], cwd, "", environs)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
