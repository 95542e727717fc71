"""A run that is written is followed, by several threads; what was read stays as it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from made_run import MadeRun, write_run

import opscope
from opscope.read.run import open_run
from opscope.rundir.jsonlines import LineTail


def read(tail: LineTail) -> list[tuple[int, dict[str, Any]]]:
    return list(tail.numbered())


def test_lines_are_read_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = LineTail(path)
    assert read(tail) == []
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert read(tail) == [(1, {"a": 1}), (2, {"a": 2})]
    assert read(tail) == []
    with open(path, "ab") as file:
        file.write(b': 3}\n{"a": 4}\n')
    assert read(tail) == [(3, {"a": 3}), (4, {"a": 4})]


def test_a_refresh_brings_nodes_steps_and_rows(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    made.call(made.linear, 0, 0, 0.0)
    rank = open_run(tmp_path).rank(0)
    nodes, steps = rank.nodes, rank.steps
    assert (len(nodes), len(steps), len(rank.stats()), len(rank.types)) == (1, 0, 2, 2)
    for step in range(3):
        made.step(step)
    assert (len(rank.nodes), len(rank.steps), len(rank.stats())) == (1, 0, 2)
    rank.refresh()
    assert (len(nodes), len(steps)) == (1, 0)
    assert rank.nodes[0] is nodes[0]
    assert [step.step for step in rank.steps] == [0, 1, 2]
    assert rank.steps[1].orders[0] == list(rank.nodes.values())
    assert len(rank.stats()) == 20
    assert rank.nodes[3].outputs[0].parameter == "fc.weight"
    whole = open_run(tmp_path).rank(0)
    assert [node.name for node in rank.nodes.values()] == [n.name for n in whole.nodes.values()]
    assert rank.variants == whole.variants
    for one, other in zip(rank.nodes.values(), whole.nodes.values(), strict=True):
        assert list(map(len, one.variants)) == list(map(len, other.variants))
    made.step(3)
    made.writer.close()
    rank.refresh()
    assert rank.steps[3].orders[0] == list(rank.nodes.values())
    assert str(rank.state) == "finished"


def test_a_run_that_gets_another_rank(tmp_path: Path) -> None:
    write_run(tmp_path, 0, world_size=2)
    reader = opscope.open(tmp_path)
    assert reader.ranks == [0]
    write_run(tmp_path, 1, world_size=2)
    assert reader.ranks == [0]
    reader.refresh()
    assert reader.ranks == [0, 1]
    assert len(reader.select_nodes("mse")) == 2


def test_threads_follow_one_reader_while_it_is_written(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, budget=1 << 18).open()
    made.step(0)
    reader = opscope.open(tmp_path)
    rank = reader.recording.rank(0)
    done = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        try:
            while not done.is_set():
                reader.refresh()
                rows = rank.stats()
                nodes, types = rank.nodes, rank.types
                assert set(rows["node"].tolist()) <= set(nodes)
                assert set(rows["shape"].tolist()) <= set(types)
                steps = [step.step for step in rank.steps]
                assert steps == list(range(len(steps)))
                assert [node.id for node in reader.select_nodes()] == [0, 1, 2, 3]
                assert len(reader.select_values("mse", steps={0})) in (0, 1)
        except BaseException as error:  # noqa: BLE001 - for the main thread to raise
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(1, 1500):
        made.step(step)
    done.set()
    for thread in threads:
        thread.join()
    made.writer.close()
    assert not failures, failures[0]
    reader.refresh()
    (node,) = reader.select_nodes("mse")
    series = reader.series(node)
    assert len(series.rows) + series.between["rows"].sum() == 1500
    assert len(series.between) > 10


def test_what_threads_get_at_first_is_the_same(tmp_path: Path) -> None:
    write_run(tmp_path, steps=50)
    for _ in range(20):
        rank = open_run(tmp_path).rank(0)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _, rank=rank: (rank.steps, rank.orders), range(4)))
        assert all(steps is found[0][0] and orders is found[0][1] for steps, orders in found)
        assert rank.steps[0].orders[0] == list(rank.nodes.values())
