"""The surroundings of a program: versions, arguments, environment without secrets, git revision."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope._version import __version__

_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PWD$|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH|COOKIE|SESSION|_KEY$",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_ARGUMENT = re.compile(r"(--?[\w-]*(?:token|secret|password|api-?key)[\w-]*=).+", re.I)
MASK = "***"


def surroundings(command: list[str]) -> dict[str, Any]:
    """Everything that is known when a program starts."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": [_SECRET_ARGUMENT.sub(rf"\1{MASK}", word) for word in command],
        "argv": [_SECRET_ARGUMENT.sub(rf"\1{MASK}", word) for word in sys.argv],
        "executable": sys.executable,
        "cwd": str(Path.cwd()),
        "versions": versions(),
        "git": git_revision(Path.cwd()),
        "environment": masked(os.environ),
        "cgroup": cgroup_events_file(),
    }


def versions() -> dict[str, str]:
    """Of Python and whatever of note is loaded."""
    found = {
        "opscope": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for name in ("torch", "numpy", "transformers", "lightning", "accelerate", "deepspeed"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return found | ({"cuda": str(cuda)} if cuda else {})


def masked(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables, with what may be a secret hidden."""
    return {
        name: MASK if _SECRET.search(name) else _IN_ADDRESS.sub(MASK, value)
        for name, value in sorted(environment.items())
    }


def git_revision(folder: Path) -> str:
    """The commit that is checked out in a folder or above it; read without running git."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():  # a worktree, or a submodule
                git = (parent / git.read_text().partition("gitdir:")[2].strip()).resolve()
            if not (git / "HEAD").is_file():
                continue
            return _commit_of(git)
        except (OSError, ValueError):
            return ""
    return ""


def _commit_of(git: Path) -> str:
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    roots = [git, (git / common.read_text().strip()).resolve()] if common.is_file() else [git]
    for root in roots:
        if (root / name).is_file():
            return f"{(root / name).read_text().strip()} ({name.removeprefix('refs/heads/')})"
        packed = root / "packed-refs"
        if packed.is_file():
            for line in packed.read_text().splitlines():
                if line.endswith(f" {name}"):
                    return f"{line.split()[0]} ({name.removeprefix('refs/heads/')})"
    return ""


def cgroup_events_file(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> str:
    """The file with the count of processes that were killed for want of memory; empty if none.

    In a container the group's own path may not be visible, but its files are at the top.
    """
    try:
        own = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return ""
    for number, controllers, path in own:
        if "memory" in controllers.split(","):  # version 1, beside which 2 may be mounted
            top, name = root / controllers, "memory.oom_control"
        elif number == "0":
            top, name = root, "memory.events"
        else:
            continue
        for folder in (top / path.lstrip("/"), top):
            if (folder / name).is_file():
                return str(folder / name)
    return ""


def oom_kills(file: str) -> int:
    """Count the processes of the cgroup that were killed for want of memory so far."""
    try:
        lines = Path(file).read_text().splitlines() if file else []
    except OSError:
        return 0
    counts = dict(line.split() for line in lines if len(line.split()) == 2)
    return int(counts.get("oom_kill", 0))
