"""Child processes: data workers are left alone, and processes that become ranks join the run.

Of others that train, it is said that they are not recorded.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing.process
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from opscope.messages import say_once


class Parent(Protocol):
    """The capture in this process, which has to make room for children."""

    def abandon(self) -> None:
        """Leave the files to the parent: this is a forked child."""

    def step_aside(self) -> None:
        """Leave the run to the ranks that are about to start."""

    def note_child(self) -> None:
        """Note that a child process starts that may join the run."""


class JoiningRank(Protocol):
    """Lets a child join the run; found by its name in a process that starts anew."""

    def join(self) -> None:
        """Capture this process as a rank of the run, unless it is captured already."""

    def is_left_out(self) -> bool:
        """Tell whether this process belongs to a run and is not captured."""

    def note_failure(self, error: BaseException) -> None:
        """Note the exception that this process ends with."""


_parents: weakref.WeakSet[Parent] = weakref.WeakSet()
_installed = False


def follow_children(parent: Parent, rank: JoiningRank) -> None:
    """Watch children of this process that become ranks, from now on, like this one."""
    global _installed
    _parents.add(parent)
    if not _installed:
        _installed = True
        os.register_at_fork(after_in_child=_leave_to_parent)
        _wrap_start(rank)
        _wrap_rank_starter()
        _watch_for_rank(rank)


def _leave_to_parent() -> None:
    """Look away in a forked child, which must not write the parent's files."""
    for parent in list(_parents):
        parent.abandon()


def _wrap_start(rank: JoiningRank) -> None:
    process = multiprocessing.process.BaseProcess
    original = process.start

    def start(self: Any) -> None:
        target = getattr(self, "_target", None)
        if target is not None and not isinstance(target, RankEntry) and not _is_data_worker(target):
            self._target = RankEntry(target, rank)
            for parent in list(_parents):
                parent.note_child()
        original(self)

    process.start = functools.wraps(original)(start)  # type: ignore[method-assign]


def _wrap_rank_starter() -> None:
    """`mp.spawn` starts ranks: a parent that has recorded so far makes room for them."""
    starter: Any = importlib.import_module("torch.multiprocessing.spawn")
    original = starter.start_processes

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        for parent in list(_parents):
            parent.step_aside()
        return original(*args, **kwargs)

    starter.start_processes = start_processes
    package: Any = sys.modules["torch.multiprocessing"]
    package.start_processes = start_processes


def _is_data_worker(target: Any) -> bool:
    return getattr(target, "__module__", "").startswith("torch.utils.data.")


class RankEntry:
    """The target of a child process, made ready to join the run if it becomes a rank."""

    def __init__(self, target: Callable[..., Any], rank: JoiningRank) -> None:
        self.target = target
        self.rank = rank

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "torch" in sys.modules:
            _watch_for_rank(self.rank)
            _watch_for_training(self.rank)
        try:
            return self.target(*args, **kwargs)
        except BaseException as error:
            self.rank.note_failure(error)
            raise


def _watch_for_rank(rank: JoiningRank) -> None:
    """Join the run when this process initialises its process group."""
    import torch.distributed as distributed

    if not distributed.is_available():
        return
    original = distributed.init_process_group
    if getattr(original, "joins_run", False):
        return

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        rank.join()
        return result

    init_process_group.joins_run = True  # type: ignore[attr-defined]
    distributed.init_process_group = init_process_group
    distributed.distributed_c10d.init_process_group = init_process_group


def _watch_for_training(rank: JoiningRank) -> None:
    """Say so if this process trains without becoming a rank, as in Hogwild."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if rank.is_left_out():
            say_once(
                f"process {os.getpid()} trains without joining a process group "
                "(torch.distributed.init_process_group): it is not recorded"
            )

    register_optimizer_step_post_hook(stepped)
