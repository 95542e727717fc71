"""Children of a training: data workers are left alone, others may become ranks."""

from __future__ import annotations

import importlib
import multiprocessing
from typing import Any

import pytest
import torch.multiprocessing as mp
from torch.utils.data._utils.worker import _worker_loop

from opscope.capture import processes


class Rank:
    """A run that notes what children tell it."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def join(self) -> None:
        raise AssertionError("no process group was made")

    def is_left_out(self) -> bool:
        return False

    def note_failure(self, error: BaseException) -> None:
        self.failures.append(error)


class Parent:
    def __init__(self) -> None:
        self.children = 0
        self.asides = 0

    def abandon(self) -> None:
        pass

    def step_aside(self) -> None:
        self.asides += 1

    def note_child(self) -> None:
        self.children += 1


class Unstarted(multiprocessing.process.BaseProcess):
    """A process that is not really started."""

    def start(self) -> None:
        pass


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Rank:
    """A run whose children start as in no other test."""
    monkeypatch.setattr(processes, "_parents", set())
    monkeypatch.setattr(processes, "_watch_for_rank", lambda rank: None)
    monkeypatch.setattr(processes, "_watch_for_training", lambda rank: None)
    base = multiprocessing.process.BaseProcess
    monkeypatch.setattr(base, "start", Unstarted.start)
    found = Rank()
    processes._wrap_start(found)
    return found


def started(target: Any) -> Any:
    """Return the target of a process after its start."""
    process = multiprocessing.process.BaseProcess(target=target)
    process.start()
    return process._target  # type: ignore[attr-defined]


def test_a_child_is_made_ready_to_join(rank: Rank) -> None:
    parent = Parent()
    processes._parents.add(parent)
    target = started(len)
    assert isinstance(target, processes.RankEntry)
    assert (target.target, target.rank) == (len, rank)
    assert target([1, 2]) == 2
    assert parent.children == 1
    assert started(target) is target, "one that is ready needs nothing"
    assert parent.children == 1


def test_data_workers_and_processes_without_a_target_are_left_alone(rank: Rank) -> None:
    parent = Parent()
    processes._parents.add(parent)
    assert started(_worker_loop) is _worker_loop
    assert started(None) is None
    assert parent.children == 0


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_the_end_of_a_child_by_an_exception_is_noted(
    rank: Rank, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error("its end")

    with pytest.raises(error, match="its end"):
        processes.RankEntry(fail, rank)()
    assert [type(each) for each in rank.failures] == [error]


def test_parents_step_aside_for_ranks(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = importlib.import_module("torch.multiprocessing.spawn")
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(starter, "start_processes", lambda *args: calls.append(args))
    monkeypatch.setattr(mp, "start_processes", starter.start_processes)
    parent = Parent()
    processes._parents.add(parent)
    processes._wrap_rank_starter()
    mp.start_processes("function", 2)
    starter.start_processes("function", 3)
    assert (parent.asides, calls) == (2, [("function", 2), ("function", 3)])


def test_a_fork_leaves_the_files_to_its_parent(rank: Rank) -> None:
    left: list[str] = []

    class Leaving(Parent):
        def abandon(self) -> None:
            left.append("files")

    processes._parents.add(Leaving())
    processes._leave_to_parent()
    assert left == ["files"]
