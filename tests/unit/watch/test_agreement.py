"""Ranks that agree through a store: all stop together, and one that has left is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from opscope.judge.watch_set import load
from opscope.messages import forget_said
from opscope.watch import agreement
from opscope.watch.agreement import Agreement
from opscope.watch.hit_log import HitLog
from opscope.watch.reaction import Reaction
from opscope.watch.sink import WatchSink

WAIT = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long here."""
    monkeypatch.setattr(agreement, "_LOOK", timedelta(seconds=0.05))
    monkeypatch.setattr(agreement, "_PATIENCE", 20.0)
    forget_said()


@pytest.fixture(params=["hash", "tcp"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """Makes connections to one store, as each rank has its own."""
    if request.param == "hash":
        store = dist.HashStore()
        yield lambda: store
    else:
        master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        yield lambda: dist.TCPStore("127.0.0.1", master.port, is_master=False, timeout=WAIT)


def ranks(size: int, connect: Callable[[], Any], act: Callable[[Agreement], Any]) -> list[Any]:
    """What `act` returns on each of several ranks that run at the same time."""
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        store = connect()
        found[rank] = act(Agreement(lambda: (store, rank, size)))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a rank hangs"
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_everybody_hears_everybody(size: int, connect: Callable[[], Any]) -> None:
    def act(meeting: Agreement) -> list[Any]:
        return [
            meeting.meet({"stop": step == 6 and meeting.rank == 1, "rank": meeting.rank})
            for step in range(8)
            if meeting.possible
        ]

    for answers in ranks(size, connect, act):
        assert len(answers) == 8
        assert all([m["rank"] for m in answer] == [*range(size)] for answer in answers)
        stops = [any(message["stop"] for message in answer) for answer in answers]
        assert stops == [False] * 6 + [True, False]


@pytest.mark.parametrize("early", [0, 1, 2])
def test_a_rank_that_finishes_early_does_not_keep_the_others(
    early: int, connect: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    def act(meeting: Agreement) -> tuple[list[int], float]:
        assert meeting.possible
        began, count = time.monotonic(), 3 if meeting.rank == early else 6
        sizes = [len(meeting.meet({})) for _ in range(count)]
        meeting.leave()
        return sizes, time.monotonic() - began

    for rank, (sizes, seconds) in enumerate(ranks(3, connect, act)):
        assert sizes == ([3] * 3 if rank == early else [3] * 3 + [1] * 3)
        assert seconds < 10
    assert "no longer stopped or compared together" in capfd.readouterr().err


def test_keys_do_not_pile_up() -> None:
    store = dist.HashStore()
    ranks(2, lambda: store, lambda meeting: [meeting.meet({}) for _ in range(50)])
    assert store.num_keys() < 20


def test_alone_there_is_nobody_to_agree_with() -> None:
    meeting = Agreement(lambda: None)
    assert not meeting.possible
    assert meeting.meet({"stop": True}) == [{"stop": True}]
    meeting.leave()
    assert not Agreement().possible, "no process group"


def test_a_store_that_breaks_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("connection lost")

    meeting = Agreement(lambda: (Broken(), 1, 2))
    assert [meeting.meet({"a": 1}) for _ in range(3)] == [[{"a": 1}]] * 3
    assert capfd.readouterr().err.count("connection lost") == 1


# ------------------------------------------------------------------------------------- the sink


def sink(store: Any, rank: int, size: int, kinds: str = "OO,LN,WO") -> WatchSink:
    made = WatchSink(
        load("recommended"), Reaction("stop", frozenset(kinds.split(","))), HitLog(None)
    )
    made.ranks.agreement = Agreement(lambda: (store, rank, size))
    made.open(rank)
    return made


def outcomes(size: int, prepare: Callable[[WatchSink], None], kinds: str = "OO") -> list[Any]:
    """Of several steps' ends: where each rank's training ended, if it did."""
    store = dist.HashStore()

    def act(rank: int) -> Any:
        made = sink(store, rank, size, kinds)
        prepare(made)
        step = -1
        try:
            for step in range(4):
                made.safe_point(step, before_update=False)
        except SystemExit:
            return step, made.ended
        finally:
            made.close()
        return None

    found: list[Any] = [None] * size
    threads = [
        threading.Thread(target=lambda rank=rank: found.__setitem__(rank, act(rank)))
        for rank in range(size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return found


def test_one_rank_that_stops_stops_all(capfd: pytest.CaptureFixture[str]) -> None:
    def prepare(made: WatchSink) -> None:
        if made.rank == 1:
            hit = SimpleNamespace(step=0, message="NaN")
            made._reporter.stopping = hit  # type: ignore[assignment]

    assert outcomes(3, prepare) == [(0, True)] * 3
    assert "rank 1 has a hit and ends training: rank 2 ends as well" in capfd.readouterr().err
    assert outcomes(2, lambda made: None) == [None, None]


def differing(made: WatchSink) -> None:
    made._renew()
    table = made._evaluator.table
    table.parameters.extend(["a", "b"])
    table.first_use.extend([None, None])  # type: ignore[list-item]
    table._numbers.update({"a": 0, "b": 1})
    made.ranks.digests = {
        0: {"a": "same", "b": "same"},
        1: {"a": "same", "b": f"of rank {made.rank}"},
    }


def test_replicas_that_differ(capfd: pytest.CaptureFixture[str]) -> None:
    assert outcomes(2, differing) == [None, None], "it is told of only"
    printed = capfd.readouterr().err
    assert printed.count("replicated, but not the same on every rank: 1 parameter (b);") == 1
    assert "step 1: RD:" in printed


def test_replicas_that_differ_stop_every_rank_if_asked() -> None:
    assert outcomes(3, differing, "RD") == [(0, True)] * 3


def test_replicas_that_agree(capfd: pytest.CaptureFixture[str]) -> None:
    def agreeing(made: WatchSink) -> None:
        differing(made)
        made.ranks.digests[1]["b"] = "same"

    assert outcomes(2, agreeing, "RD") == [None, None]
    assert "replicated" not in capfd.readouterr().err
