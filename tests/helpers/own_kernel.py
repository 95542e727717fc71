"""A Linux of our own, in which tests may do what belongs to whoever runs the machine.

It is user-mode Linux, `linux.uml` of Debian's package user-mode-linux: a kernel that runs as a
process. It sees all files of this machine, and can write to none but those in its own memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

KERNEL = shutil.which("linux.uml")
REPOSITORY = Path(__file__).parents[2]
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opscope"
_FIRST = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/mnt HOME=/mnt XDG_CACHE_HOME=/mnt/cache
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t tmpfs tmp /mnt
mkdir /mnt/cache && cp -r {cache} /mnt/cache/
{groups}
cd {repository} && export PYTHONPATH={sources} PYTHONDONTWRITEBYTECODE=1 {variables}
{python} -m pytest -q -p no:cacheprovider --basetemp /mnt/tests {words} && echo ALL WELL
poweroff -f
"""
GROUPS = {
    1: "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && "
    "mount -t cgroup -o memory none /sys/fs/cgroup/memory",
    2: "mount -t cgroup2 none /sys/fs/cgroup && "
    "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
}
"""How control groups of a version are made available."""
TOP = {1: "/sys/fs/cgroup/memory", 2: "/sys/fs/cgroup"}


def run_tests(folder: Path, version: int, *words: str) -> str:
    """Run pytest there, with control groups of a version; returns what it prints."""
    assert KERNEL is not None
    first = folder / "first.sh"
    first.write_text(
        _FIRST.format(
            cache=_CACHE,
            groups=GROUPS[version],
            repository=REPOSITORY,
            sources=REPOSITORY / "src",
            variables=f"OPSCOPE_TEST_CGROUP={TOP[version]}",
            python=sys.executable,
            words=" ".join(words),
        )
    )
    first.chmod(0o755)
    options = ("mem=4G", "rootfstype=hostfs", "rootflags=/", "ro", "quiet")
    consoles = ("con=null", "con0=fd:0,fd:1")
    done = subprocess.run(
        [KERNEL, *options, *consoles, f"init={first}"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    return done.stdout + done.stderr
