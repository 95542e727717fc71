"""What the recorder notes of a GPU: native code, which asks the driver, notes what Python notes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from opscope.record.native import load
from opscope.record.program import DeviceMarks
from opscope.record.python_writer import PythonWriter
from opscope.record.reading import RingReader
from opscope.record.ring import Ring, Sizes
from opscope.record.step_facts import StepFactsRecorder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)


@pytest.fixture(params=["native", "python"])
def ring(request: pytest.FixtureRequest) -> Iterator[Ring]:
    made = Ring.in_memory(Sizes(slots=16, names_bytes=1 << 12))
    if request.param == "native":
        native = made.native = load(torch)
        assert native is not None, "there is no native recorder"
        native.open(made.address, made.memory, lambda file: True)
        yield made
        native.close()
    else:
        yield made


@pytest.fixture
def facts(ring: Ring) -> Iterator[StepFactsRecorder]:
    made = StepFactsRecorder(ring, ring.native or PythonWriter())
    made.begin(0)
    yield made
    made.close()


def latest(ring: Ring) -> dict[str, Any]:
    return dict(RingReader(ring.memory[:]).steps[-1])


def test_batches_name_their_device(ring: Ring, facts: StepFactsRecorder) -> None:
    x = torch.ones(4, 6, device="cuda")
    mask = torch.ones(2, dtype=torch.bool)
    digest = f"{zlib.crc32(bytes([1, 1])):08x}"
    facts.add_call((x[:, ::2], None), {"mask": mask, "ids": x.long()})
    assert latest(ring)["batch"] == [
        {"name": "input0", "dtype": "float32", "shape": [4, 3], "device": "cuda:0"},
        {"name": "mask", "dtype": "bool", "shape": [2], "digest": digest},
        {"name": "ids", "dtype": "int64", "shape": [4, 6], "device": "cuda:0"},
    ]
    about, content = RingReader(ring.memory[:]).blob("batch")
    assert [each["name"] for each in about["tensors"]] == ["mask"]
    assert content == mask.numpy().tobytes()


def test_random_states_are_those_before_the_batch(ring: Ring, facts: StepFactsRecorder) -> None:
    torch.manual_seed(7)
    torch.rand(3, device="cuda")
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    facts.add_call((torch.ones(2, device="cuda"),), {})
    about, content = RingReader(ring.memory[:]).blob("random")
    assert [each["name"] for each in about["tensors"]] == ["torch", "cuda"]
    assert content == b"".join(state.numpy().tobytes() for state in states)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [1 / 3, float("nan"), float("-inf")])
def test_losses_are_those_that_were_computed(
    ring: Ring, facts: StepFactsRecorder, dtype: torch.dtype, value: float
) -> None:
    if dtype == torch.int64 and value != 1 / 3:
        pytest.skip("integers have none")
    made = torch.tensor([2.0, value], device="cuda").to(dtype)
    loss = made[1]
    facts.add_losses([loss])
    expected = float(loss)
    made.zero_()  # the number is that of before
    torch.cuda.synchronize()
    facts.end()
    found = latest(ring)["loss"]
    assert found == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_a_step_may_have_more_losses_than_there_are_places(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    for step in range(3):
        losses = torch.arange(100, device="cuda", dtype=torch.float32) + step
        facts.add_losses(list(losses))
        torch.cuda.synchronize()
        facts.end()
        assert latest(ring)["loss"] == [float(number + step) for number in range(100)]
        facts.begin(step + 1)


def test_numbers_that_nobody_waits_for_give_their_places_back(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    for step in range(40):
        facts.add_losses(list(torch.full((10,), step, device="cuda", dtype=torch.float32)))
        facts.end()
        facts.begin(step + 1)
    torch.cuda.synchronize()
    facts.add_losses([torch.tensor(2.5, device="cuda")])
    torch.cuda.synchronize()
    facts.end()
    assert latest(ring)["loss"] == 2.5


def test_memory_is_what_the_allocator_says(ring: Ring, facts: StepFactsRecorder) -> None:
    kept = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    del kept
    facts.end()
    assert latest(ring)["allocated"] == torch.cuda.memory_allocated()
    assert latest(ring)["peak"] == torch.cuda.max_memory_allocated() >= 3 << 20


def test_it_is_known_how_far_the_device_has_got(ring: Ring) -> None:
    marks = DeviceMarks(ring)
    marks.mark()
    torch.cuda.synchronize()
    ring["head"] = 5
    torch.cuda._sleep(200_000_000)
    marks.mark()
    assert ring["completed"] == 0
    torch.cuda.synchronize()
    ring["head"] = 9
    marks.mark()
    assert ring["completed"] >= 5


def test_other_streams_have_their_own_marks_and_numbers(
    ring: Ring, facts: StepFactsRecorder
) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = torch.ones((), device="cuda") * 3
        facts.add_losses([late])
    stream.synchronize()
    facts.end()
    assert latest(ring)["loss"] == 3.0


def captured(body: Callable[[], object]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        body()
    return graph


def test_a_graph_that_is_captured_has_nothing_of_ours(ring: Ring, facts: StepFactsRecorder) -> None:
    x = torch.ones(4, device="cuda")
    marks = DeviceMarks(ring)

    def body() -> None:
        loss = (x * 2).sum()
        facts.add_call((x,), {})
        facts.add_losses([loss])
        marks.mark()

    graph = captured(body)
    graph.replay()
    torch.cuda.synchronize()
    facts.end()
    assert latest(ring)["loss"] is None
    about, _ = RingReader(ring.memory[:]).blob("random")
    assert [each["name"] for each in about["tensors"]] == ["torch"]


def test_the_host_waits_for_nothing(ring: Ring, facts: StepFactsRecorder) -> None:
    x, marks = torch.ones(4, device="cuda"), DeviceMarks(ring)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # a second and more
    behind = torch.cuda.Event()
    behind.record()
    facts.add_call((x,), {})
    facts.add_losses([x.sum()])
    marks.mark()
    facts.end()
    assert not behind.query()
    torch.cuda.synchronize()
