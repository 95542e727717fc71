"""Imports torch once, then is `python …` in forked processes, as lines on stdin ask for them.

A line is JSON: `words`, Python's arguments (a script, or -m and a module); `folder`, the working
directory; `environ`, variables to set; and `files`, the paths of standard input, output and error.
The answer is a line with the exit code.
"""

import gc
import json
import os
import runpy
import signal
import sys
import time

import torch
import torch._dynamo  # which any optimizer imports, slowly

TIMEOUT = 120


def become(words: list[str], folder: str, environ: dict[str, str], files: list[str]) -> None:
    """Be `python words…` from here on, up to the end of this process."""
    os.chdir(folder)
    os.environ.update(environ)
    flags = (os.O_RDONLY, os.O_CREAT | os.O_WRONLY, os.O_CREAT | os.O_WRONLY)
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


def exit_code(child: int) -> int:
    """Wait for a child; one that takes too long is killed."""
    deadline = time.monotonic() + TIMEOUT
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


torch.set_num_threads(1)
gc.collect()
gc.freeze()  # or every child would look through all of torch, once at its end for certain
while line := sys.stdin.readline():
    child = os.fork()
    if not child:
        become(**json.loads(line))
        break
    print(exit_code(child), flush=True)
