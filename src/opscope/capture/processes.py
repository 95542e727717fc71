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
from typing import TYPE_CHECKING, Any

from opscope.messages import say_once
from opscope.settings.handover import HANDOVER_VARIABLE, handed_over

if TYPE_CHECKING:
    from opscope.session import Session

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_installed = False


def follow_children(session: Session) -> None:
    """From now on a child of this process that becomes a rank is watched like this one."""
    global _installed
    _sessions.add(session)
    if not _installed:
        _installed = True
        os.register_at_fork(after_in_child=_leave_to_parent)
        _wrap_start()
        _wrap_rank_starter()
        _watch_for_rank()


def _leave_to_parent() -> None:
    """A fork inherits the capture but not the right to write the parent's files."""
    for session in list(_sessions):
        session.abandon()


def _wrap_start() -> None:
    process = multiprocessing.process.BaseProcess
    original = process.start

    def start(self: Any) -> None:
        target = getattr(self, "_target", None)
        if target is not None and not isinstance(target, RankEntry) and not _is_data_worker(target):
            self._target = RankEntry(target)
            for session in list(_sessions):
                if session.capture is not None:
                    session.capture.has_children = True
        original(self)

    process.start = functools.wraps(original)(start)  # type: ignore[method-assign]


def _wrap_rank_starter() -> None:
    """`mp.spawn` starts ranks: a parent that has recorded so far makes room for them."""
    starter: Any = importlib.import_module("torch.multiprocessing.spawn")
    original = starter.start_processes

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        for session in list(_sessions):
            session.step_aside()
        return original(*args, **kwargs)

    starter.start_processes = start_processes
    package: Any = sys.modules["torch.multiprocessing"]
    package.start_processes = start_processes


def _is_data_worker(target: Any) -> bool:
    return getattr(target, "__module__", "").startswith("torch.utils.data.")


class RankEntry:
    """The target of a child process, made ready to join the run if it becomes a rank."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "torch" in sys.modules:
            _watch_for_rank()
            _watch_for_training()
        try:
            return self.target(*args, **kwargs)
        except BaseException as error:
            _note_failure(error)
            raise


def _watch_for_rank() -> None:
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
        _join_run()
        return result

    init_process_group.joins_run = True  # type: ignore[attr-defined]
    distributed.init_process_group = init_process_group
    distributed.distributed_c10d.init_process_group = init_process_group


def _watch_for_training() -> None:
    """Say so if this process trains without becoming a rank, as in Hogwild."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if HANDOVER_VARIABLE in os.environ and not _is_captured():
            say_once(
                f"process {os.getpid()} trains without joining a process group "
                "(torch.distributed.init_process_group): it is not recorded"
            )

    register_optimizer_step_post_hook(stepped)


def _note_failure(error: BaseException) -> None:
    from opscope.session import current_session

    session = current_session()
    if session is not None:
        session.note_failure(error)


def _is_captured() -> bool:
    from opscope.session import current_session

    session = current_session()
    return session is not None and session.capture is not None


def _join_run() -> None:
    from opscope.session import Session, begin

    if _is_captured():
        return
    settings = handed_over(os.environ)
    if settings is not None and settings.active:
        begin(lambda: Session(settings, sys.argv[0], sys.argv))
