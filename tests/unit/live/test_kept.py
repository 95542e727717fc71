"""Kept values are those of the moment, within their budget, and what is dropped is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opscope.errors import OpscopeError
from opscope.events import IO, TRAINING_GRAPH, Call, Node, PassingValue, Phase, Stack
from opscope.live.control import LiveSettings
from opscope.live.kept import ALL, NONE, SMALL_BYTES, USUAL_BYTES, KeptValues, ValueKey
from opscope.live.spill import Spill
from opscope.settings.run import load_run_settings

SIZE = 1000
"""Bytes of each value."""


def node(number: int, scope: str = "Default/a") -> Node:
    name = f"{scope}/relu-op{number}"
    stack = Stack(0, ())
    return Node(
        number, TRAINING_GRAPH, name, "relu", "aten.relu", scope, "ReLU", Phase.FORWARD, stack
    )


def add(kept: KeptValues, step: int, number: int, fill: float) -> ValueKey:
    tensor = torch.full((SIZE // 4,), float(fill))
    call = Call(node(number), step, number, 0, 0)
    kept.add(call, IO.OUTPUT, [PassingValue(0, tensor, None)])
    tensor.fill_(-1.0)  # what is written in place later
    return ValueKey(step, number, "output", 0)


def test_what_is_written_in_place_later_changes_nothing() -> None:
    kept = KeptValues()
    key = add(kept, 0, 1, 7.0)
    found = kept.get(key)
    assert found is not None and (found == 7.0).all()


def test_memory_then_disk_then_the_step_before_goes(tmp_path: Path) -> None:
    kept = KeptValues(2 * SIZE, ALL, Spill(tmp_path, 3 * SIZE))
    first = [add(kept, 0, number, number) for number in range(4)]
    assert [key for key in first if kept.get(key) is None] == [] and kept.dropped == 0
    for number, key in enumerate(first):
        found = kept.get(key)
        assert found is not None and np.array_equal(found, np.full(SIZE // 4, number, np.float32))
    second = [add(kept, 1, number, 10 + number) for number in range(4)]
    assert all(kept.get(key) is not None for key in second)
    gone = [key for key in first if kept.get(key) is None]
    assert gone and kept.dropped == len(gone) and all(map(kept.was_dropped, gone))
    third = [add(kept, 2, number, 20 + number) for number in range(9)]
    assert all(kept.get(key) is None for key in first)
    assert sum(kept.get(key) is not None for key in third) == 5
    assert list(tmp_path.iterdir()) == []  # nobody sees it, and it ends with the process


def test_a_value_larger_than_the_budget_is_dropped_and_known(tmp_path: Path) -> None:
    kept = KeptValues(SIZE - 1, ALL, Spill(tmp_path, 10 * SIZE))
    key = add(kept, 0, 0, 1.0)
    assert kept.get(key) is None and kept.was_dropped(key) and kept.dropped == 1


def test_a_full_disk_drops_values(tmp_path: Path) -> None:
    kept = KeptValues(SIZE, ALL, Spill(tmp_path / "is not there", 10 * SIZE))
    keys = [add(kept, 0, number, number) for number in range(3)]
    assert [kept.get(key) is not None for key in keys] == [False, False, True]
    assert kept.dropped == 2


def test_this_step_and_the_one_before_are_kept(tmp_path: Path) -> None:
    kept = KeptValues(SIZE, ALL, Spill(tmp_path, 100 * SIZE))
    keys = []
    for step in range(4):
        kept.begin_step(step)
        keys += [add(kept, step, 0, step), add(kept, step, 1, step)]
    kept.begin_step(4)  # held at the end of step 3, the next one has begun
    assert [kept.get(key) is not None for key in keys] == [False] * 4 + [True] * 4
    kept.keep([], NONE)
    for step in range(5, 8):
        kept.begin_step(step)
    assert kept.present() == []


def test_parameters_of_three_steps_back_are_there_to_compare_the_last_step_with() -> None:
    kept = KeptValues()
    for step in range(4):
        kept.begin_step(step)
        add(kept, step, 0, step)
        kept.add_parameters(step, {"w": torch.full((3,), float(step))})
    kept.begin_step(4)
    add(kept, 4, 0, 4.0)  # held in step 4, before its update: now they are those of step 3
    before = kept.get(ValueKey(2, "w", "parameter", 0))
    assert before is not None and before.tolist() == [2.0, 2.0, 2.0]
    # Held as step 4 begins, one looks at step 3: it used those of step 2, step 2 those of 1.
    assert kept.get(ValueKey(1, "w", "parameter", 0)) is not None
    assert kept.get(ValueKey(0, "w", "parameter", 0)) is None


def test_who_is_kept() -> None:
    kept = KeptValues()
    one, other = node(1), node(2, "Default/b/c")
    assert not kept.wants(one)
    kept.keep(["Default/b"])
    assert kept.wants(other) and not kept.wants(one)
    kept.keep(["*relu-op1"])
    assert kept.wants(one) and not kept.wants(other)
    kept.keep([], ALL)
    assert not kept.wants(one)  # nobody is there
    kept.is_attended = lambda: True
    assert kept.wants(one) and kept.wants(other)
    kept.keep([], NONE)
    assert not kept.wants(one)
    with pytest.raises(OpscopeError, match="--keep none"):
        kept.keep(["x"], NONE)
    with pytest.raises(OpscopeError, match="must be"):
        kept.keep([], "some")


def test_elements_in_ranges_are_counted() -> None:
    kept = KeptValues()
    tensor = torch.tensor([0.0, 1.0, 2.0, float("nan"), float("inf")])
    kept.add(Call(node(3), 5, 17, 0, 0), IO.INPUT, [PassingValue(2, tensor, None)])
    ranges = [(0.0, 1.0), (1.5, float("inf"))]
    assert kept.counts(5, ranges) == [(17, "input", 2, 0, 2), (17, "input", 2, 1, 2)]
    assert kept.counts(4, ranges) == []


@pytest.mark.parametrize(
    "flags, environ, size",
    [
        ({}, {}, USUAL_BYTES),
        ({}, {"MS_DEBUGGER_PARTIAL_MEM": "1"}, SMALL_BYTES),
        ({"keep_budget": "3MB"}, {"MS_DEBUGGER_PARTIAL_MEM": "1"}, 3_000_000),
    ],
)
def test_the_budget(
    flags: dict[str, str], environ: dict[str, str], size: int, tmp_path: Path
) -> None:
    settings = load_run_settings(flags, environ, tmp_path)
    assert LiveSettings.of(settings).keep_bytes == size
