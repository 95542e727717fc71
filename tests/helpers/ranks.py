"""Functions run as the ranks of a process group, in processes of their own.

They are started by a server that has loaded torch and run nothing: a fork of a test process may
hold threads of autograd, and torch with CUDA then refuses to run backward in it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import torch.multiprocessing as mp

multiprocessing.set_forkserver_preload(["torch", "torch.distributed"])


def run_ranks(target: Callable[..., None], world: int, *args: object) -> None:
    """Run `target(rank, *args)` in so many processes; a failure in one is raised here."""
    mp.start_processes(target, args, world, start_method="forkserver")
