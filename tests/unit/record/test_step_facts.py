"""The facts of steps in the ring."""

from __future__ import annotations

import zlib

import pytest
import torch

from opscope.record.reading import RingReader
from opscope.record.ring import Ring, Sizes
from opscope.record.step_facts import StepFactsRecorder


@pytest.fixture
def ring() -> Ring:
    return Ring.in_memory(Sizes(slots=16, names_bytes=1 << 12))


@pytest.fixture
def facts(ring: Ring) -> StepFactsRecorder:
    made = StepFactsRecorder(ring, lambda by: None)
    made.begin(0)
    return made


def latest(ring: Ring) -> dict[str, object]:
    return dict(RingReader(ring.memory[:]).steps[-1])


@pytest.mark.parametrize("count", [0, 3, 1 << 14, (1 << 14) + 7, 1 << 15, 100_000])
def test_a_batch_has_the_checksum_of_its_ends(
    ring: Ring, facts: StepFactsRecorder, count: int
) -> None:
    values = torch.arange(count, dtype=torch.float32)
    facts.add_batch([("x", values)])
    content = values.numpy().tobytes()
    ends = content if len(content) <= 1 << 17 else content[: 1 << 16] + content[-(1 << 16) :]
    assert latest(ring)["batch"] == [
        {"name": "x", "dtype": "float32", "shape": [count], "digest": f"{zlib.crc32(ends):08x}"}
    ]


def test_the_values_of_a_batch_and_the_random_state_before_it(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    x, y = torch.tensor([[1, 2]]), torch.tensor(3.5, dtype=torch.float64)
    facts.add_batch([("x", x), ("targets", y)])
    reader = RingReader(ring.memory[:])
    about, content = reader.blob("batch")
    assert about == {
        "step": 0,
        "tensors": [
            {"name": "x", "dtype": "int64", "shape": [1, 2]},
            {"name": "targets", "dtype": "float64", "shape": []},
        ],
    }
    assert content == x.numpy().tobytes() + y.numpy().tobytes()
    about, content = reader.blob("random")
    assert [each["name"] for each in about["tensors"]] == ["torch"]
    assert content == state.numpy().tobytes()


def test_of_many_batches_in_a_step_the_latest_are_noted(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    for number in range(1000):
        facts.add_batch([("x", torch.full((1,), number)), ("y", torch.ones(1))])
    assert len(facts.batch) <= 16
    batch = latest(ring)["batch"]
    assert len(batch) == len(facts.batch)  # type: ignore[arg-type]
    about, content = RingReader(ring.memory[:]).blob("batch")
    assert len(about["tensors"]) == len(facts.batch)
    assert torch.tensor(999).numpy().tobytes() in content


def test_quick_batches_of_an_evaluation_are_noted_now_and_then(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    facts.add_evaluated([("x", torch.zeros(1))])
    for number in range(100):
        facts.add_evaluated([("x", torch.full((1,), number))])
    assert 1 <= len(latest(ring)["batch"]) < 16  # type: ignore[arg-type]


def test_the_same_tensor_is_noted_once_and_another_is_added(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    x, y = torch.ones(2), torch.ones(3)
    facts.add_batch([("x", x)])
    facts.add_batch([("x", x), ("y", y)])
    batch = latest(ring)["batch"]
    assert [each["name"] for each in batch] == ["x", "y"]  # type: ignore[attr-defined]
    assert len(RingReader(ring.memory[:]).blob("batch")[1]) == 5 * 4
