"""Imports torch once, then is `python …` in forked processes, as lines on stdin ask for them.

A line is a JSON list of processes that are to run at the same time. Each has `words`, Python's
arguments (a script, or -m and a module); `folder`, the working directory; `environ`, variables to
set; and `files`, the paths of standard input, output and error. The answer is a line with their
exit codes. When one of several fails the others have a little time left.

A line that is one such process, not in a list, starts it in a session of its own; the answer is its
id. A line that is such an id is answered by the exit code, or by "running".
"""

import atexit
import ctypes
import gc
import json
import multiprocessing.process
import os
import runpy
import signal
import sys
import time
from typing import Any

import torch
import torch._dynamo  # which any optimizer imports, slowly

TIMEOUT = 120
GRACE = 5


def become(words: list[str], folder: str, environ: dict[str, str], files: list[str]) -> None:
    """Be `python words…` from here on, up to the end of this process."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may be run by nohup
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder  # where children that are spawned begin
    os.environ.update(environ)
    written = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    flags = (os.O_RDONLY, written, written)
    for stream, (path, flag) in enumerate(zip(files, flags, strict=True)):
        opened = os.open(path, flag)
        os.dup2(opened, stream)
        os.close(opened)
    is_module = words[0] == "-m"
    sys.argv[:] = words[1:] if is_module else words
    if is_module:
        sys.path[0] = folder
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.join(folder, words[0]))  # noqa: PTH118, PTH120
        runpy.run_path(words[0], run_name="__main__")


def fork(processes: list[dict[str, Any]]) -> list[int]:
    """Start the processes; in each of them, when it has done its work, the list is empty."""
    children = []
    for asked in processes:
        if not (child := os.fork()):
            become(**asked)
            return []
        children.append(child)
    return children


def exit_codes(children: list[int]) -> list[int]:
    """Wait for children; those that take too long are killed."""
    deadline = time.monotonic() + TIMEOUT
    codes: dict[int, int] = {}
    while len(codes) < len(children):
        for child in [child for child in children if child not in codes]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
        time.sleep(0.01)
    return [codes[child] for child in children]


def start(asked: dict[str, Any]) -> int:
    """Start a process that goes on; in it, when it has done its work, this returns 0."""
    if child := os.fork():
        return child
    os.setsid()
    become(**asked)
    return 0


def state_of(child: int) -> str:
    """Tell how a started process ended, or that it runs."""
    if child not in ended:
        pid, status = os.waitpid(child, os.WNOHANG)
        if not pid:
            return "running"
        ended[child] = os.waitstatus_to_exitcode(status)
    return str(ended[child])


ended: dict[int, int] = {}
"""The exit codes of processes that were started, by their ids."""
torch.set_num_threads(1)
# What is registered here is called after all that a child registers, and before torch takes itself
# apart, which takes an eighth of a second.
_libc = ctypes.CDLL(None)
_libc.on_exit(_libc._exit, None)
gc.collect()
gc.freeze()  # or every child would look through all of torch, once at its end for certain
if "triton" in sys.modules:
    atexit.register(gc.unfreeze)  # it would complain of its own objects, at length
while line := sys.stdin.readline():
    match json.loads(line):
        case int(child):
            print(state_of(child), flush=True)
        case dict(asked):
            if not (child := start(asked)):
                break
            print(child, flush=True)
        case processes:
            if not (children := fork(processes)):
                break
            print(*exit_codes(children), flush=True)
