"""Starting the helper: the process beside a training that holds its server and page."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from opscope.atomic_files import write_whole
from opscope.rundir.jsonlines import encode, read_object
from opscope.rundir.layout import run_key
from opscope.user_state import state_directory

_NEEDED = ("fastapi", "uvicorn", "websockets")


def missing_packages() -> list[str]:
    """Return what a server needs and is not installed."""
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def start_helper(run: Path) -> str:
    """Start the helper of a run on this machine; returns host:port, or nothing if it fails.

    The port is taken here and handed over, so that nobody has to wait until the helper is there:
    who connects earlier waits in the socket's queue.
    """
    try:
        file = _address_file(run)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server, _own_process() as own:
            server.bind(("127.0.0.1", 0))
            server.listen(128)
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with open(file.with_suffix(".log"), "ab") as log:
                subprocess.Popen(
                    [sys.executable, *_words(server.fileno(), run, own)],
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[server.fileno(), *own],
                    start_new_session=True,
                )
        write_whole(file, encode({"address": address}))
    except OSError:
        return ""
    return address


def helper_address(run: Path) -> str:
    """Return where the helper of a run is on this machine; nothing if there is none yet."""
    return str((read_object(_address_file(run)) or {}).get("address", ""))


@contextlib.contextmanager
def _own_process() -> Iterator[list[int]]:
    """A descriptor of this process, by which the helper learns how it ends; none where unknown."""
    try:
        descriptor = os.pidfd_open(os.getpid())
    except (OSError, AttributeError):
        yield []
        return
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)


def _words(descriptor: int, run: Path, own: list[int]) -> list[str]:
    module = ["-m", "opscope.server.helper"]
    return [*module, str(descriptor), str(run.resolve()), str(os.getpid()), *map(str, own)]


def _environment() -> dict[str, str]:
    """The helper neither watches itself nor takes part in the training."""
    ours = ("OPSCOPE_", "MINDSPORE_", "MS_", "ENABLE_MS_", "LD_PRELOAD", "CUDA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    token = os.environ.get("OPSCOPE_TOKEN")
    path = str(Path(__file__).parents[2])
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": found} | ({"OPSCOPE_TOKEN": token} if token else {})


def _address_file(run: Path) -> Path:
    return state_directory() / "servers" / f"{run_key(run)}.json"


def forget_helper(run: Path) -> None:
    """Remove the address of a helper that ends, so that nobody looks for it."""
    file = _address_file(run)
    file.unlink(missing_ok=True)
    log = file.with_suffix(".log")
    if log.exists() and not log.stat().st_size:
        log.unlink()
