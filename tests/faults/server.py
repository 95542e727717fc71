"""Imports torch once, then runs `opscope …` in forked processes, as lines on stdin ask for them.

A line is JSON: `words`, opscope's arguments, and `folder`, the working directory, which gets the
files stdout and stderr. The answer is a line with the exit code.
"""

import json
import os
import runpy
import signal
import sys
import time

import torch
import torch._dynamo  # which any optimizer imports, slowly

TIMEOUT = 120


def become(words: list[str], folder: str) -> None:
    """Be `python -m opscope words…` from here on, up to the end of this process."""
    os.chdir(folder)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv[1:] = words
    runpy.run_module("opscope", run_name="__main__", alter_sys=True)


def exit_code(child: int) -> int:
    """Wait for a child; one that takes too long is killed."""
    deadline = time.monotonic() + TIMEOUT
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


torch.set_num_threads(1)
while line := sys.stdin.readline():
    child = os.fork()
    if not child:
        become(**json.loads(line))
        break
    print(exit_code(child), flush=True)
