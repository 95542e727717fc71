"""The facts of steps in the ring."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from opscope.record.native import load
from opscope.record.python_writer import PythonWriter
from opscope.record.reading import RingReader
from opscope.record.ring import Ring, Sizes
from opscope.record.step_facts import StepFactsRecorder


@pytest.fixture
def ring() -> Ring:
    return Ring.in_memory(Sizes(slots=16, names_bytes=1 << 12))


@pytest.fixture(params=["native", "python"])
def facts(request: pytest.FixtureRequest, ring: Ring) -> Iterator[StepFactsRecorder]:
    native = load(torch) if request.param == "native" else None
    if native is None and request.param == "native":
        pytest.skip("there is no native recorder")
    if native is not None:
        native.open(ring.address, ring.memory, lambda file: True)
        ring.native = native
    made = StepFactsRecorder(ring, native or PythonWriter())
    made.begin(0)
    yield made
    made.close()
    if native is not None:
        native.close()


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
    facts.add_evaluated((torch.zeros(1),), {})
    for number in range(100):
        facts.add_evaluated((torch.full((1,), number),), {})
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


def written(made: StepFactsRecorder, ring: Ring) -> tuple[object, ...]:
    """The facts and the tensors in the ring, but for times and memory."""
    made.end()
    reader = RingReader(ring.memory[:])
    facts = {k: v for k, v in reader.steps[-1].items() if k not in ("time", "seconds", "rss")}
    return facts, reader.blob("batch"), reader.blob("random")


def freed(offset: int, left: int) -> torch.Tensor:
    """A tensor of which so many bytes of memory are left."""
    found = torch.arange(16.0)[offset:]
    found.untyped_storage().resize_(left)
    return found


def unusual_tensors() -> list[tuple[str, torch.Tensor]]:
    """Tensors that native code takes, and such as it leaves to Python."""
    real = torch.arange(6.0).reshape(2, 3)
    complex_ones = torch.complex(real, -real)
    return [
        *((str(dtype), real.to(dtype)) for dtype in (torch.bfloat16, torch.float16, torch.bool)),
        *((str(dtype), real.to(dtype)) for dtype in (torch.uint16, torch.float8_e5m2)),
        ("transposed", real.T),
        ("part", real[:, :2]),
        ("from the middle", real[1]),
        ("conjugate", complex_ones.conj()),
        ("negative", complex_ones.conj().imag),
        ("expanded", torch.ones(1).expand(4)),
        ("sparse", real.to_sparse()),
        ("quantized", torch.quantize_per_tensor(real, 0.1, 0, torch.qint8)),
        ("meta", real.to("meta")),
        ('named "so"\n', real),
        ("é", real),
        ("parameter", torch.nn.Parameter(real)),
        ("zero", torch._efficientzerotensor((3,))),
        *(("freed", freed(offset, 0)) for offset in (0, 8)),
        ("cut short", freed(8, 40)),
        ("nul\0", real),
        ("many", torch.zeros(1 << 15, dtype=torch.int16)),
        ("too large", torch.zeros(1 << 17, dtype=torch.int64)),
    ]


def written_by_both(note: Callable[[StepFactsRecorder, Ring], None]) -> list[tuple[object, ...]]:
    """What native code and Python write of a step."""
    native = load(torch)
    if native is None:
        pytest.skip("there is no native recorder")
    found = []
    for writer in (native, PythonWriter()):
        ring = Ring.in_memory(Sizes(slots=16, names_bytes=1 << 12))
        if writer is native:
            native.open(ring.address, ring.memory, lambda file: True)
            ring.native = native
        made = StepFactsRecorder(ring, writer)
        made.begin(7)
        torch.manual_seed(5)
        note(made, ring)
        found.append(written(made, ring))
        made.close()
    native.close()
    return found


@pytest.mark.parametrize("named", unusual_tensors(), ids=lambda named: named[0].strip())
def test_native_code_writes_what_python_writes(named: tuple[str, torch.Tensor]) -> None:
    def note(made: StepFactsRecorder, ring: Ring) -> None:
        made.add_batch([("first", torch.ones(2)), named])
        made.add_losses(
            [torch.tensor(1.5), torch.tensor(2, dtype=torch.int32), torch.ones(2), None]
        )
        made.add_norm(torch.tensor(float("nan"), dtype=torch.float64))
        ring.add_statistics(7, '{"x": 1}')

    native, python = written_by_both(note)
    assert native == python


class Tagged(torch.Tensor):
    """A subclass, whose attributes may be anything."""


ONES = torch.ones(2, 3)
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "tensors": ((ONES, torch.arange(4)), {"mask": torch.ones(2, dtype=torch.bool)}),
    "others between": ((None, ONES, 1, 2.5, "x", True), {"flag": False, "y": ONES.double()}),
    "twice": ((ONES, ONES), {}),
    "a dictionary": (({"ids": ONES, "more": [ONES + 1]},), {}),
    "a list by name": ((), {"parts": [ONES, ONES + 1]}),
    "made by autograd": ((ONES.clone().requires_grad_() * 2, ONES), {}),
    "a leaf": ((ONES.clone().requires_grad_(),), {}),
    "a subclass": ((ONES.as_subclass(Tagged),), {}),
    "no memory": ((torch.ones(2, device="meta"), ONES), {}),
    "an object": ((object(), ONES), {}),
    "a name with quotes": ((), {'"': ONES}),
    "nothing": ((1,), {}),
    "many": (tuple(torch.full((1,), i) for i in range(20)), {}),
    "too large": ((ONES, torch.zeros(1 << 17, dtype=torch.int64)), {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_native_code_notes_the_calls_that_python_notes(call: str) -> None:
    def note(made: StepFactsRecorder, ring: Ring) -> None:
        args, kwargs = CALLS[call]
        made.add_call(args, kwargs)
        batches.append([(name, id(tensor)) for name, tensor in made.batch])
        made.add_call(args, kwargs)
        made.add_call((ONES, ONES - 1), {})

    batches: list[list[tuple[str, int]]] = []
    native, python = written_by_both(note)
    assert native == python
    assert batches[0] == batches[1]


def test_a_batch_of_two_steps_is_noted_in_the_first(ring: Ring, facts: StepFactsRecorder) -> None:
    facts.add_call((ONES,), {})
    facts.end()
    facts.begin(1)
    facts.add_call((ONES,), {})
    facts.end()
    steps = RingReader(ring.memory[:]).steps
    assert ["batch" in step for step in steps] == [True, False]


def test_an_allocator_may_tell_nothing(
    ring: Ring, facts: StepFactsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("this allocator does not support that")

    monkeypatch.setattr(torch.cuda.memory, "memory_stats_as_nested_dict", refuse)
    facts.uses_cuda = True
    facts.end()
    assert latest(ring)["step"] == 0 and "seconds" in latest(ring)
    assert "allocated" not in latest(ring)


def test_native_code_does_what_is_usual(ring: Ring) -> None:
    native = load(torch)
    if native is None:
        pytest.skip("there is no native recorder")
    native.open(ring.address, ring.memory, lambda file: True)
    usual = [("x", torch.ones(2, 3, dtype=torch.int64)), ("y", torch.nn.Parameter(torch.ones(2)))]
    assert native.describe(usual) is not None
    assert native.put_batch(0, usual) and native.put_random(0, False)
    assert (
        native.note_call(0, 0, (ONES, None, 3), {"y": torch.arange(2)}, [], {}, False) is not None
    )
    assert native.number(torch.tensor(1.5, requires_grad=True)) == 1.5
    assert native.put_step(0, {"step": "0"}, None)
    native.close()


def test_facts_that_are_too_long_lose_the_last_ones(ring: Ring, facts: StepFactsRecorder) -> None:
    for size in range(1900, 2060, 7):
        texts = {"step": "0", "long": f'"{"x" * size}"', "last": "1"}
        ring.put_step(0, 0, texts)
        found = latest(ring)
        whole = len(f'{{"step":0,"long":"{"x" * size}","last":1}}') <= 2044
        assert ("last" in found) == whole and ("long" in found) == (size <= 2044 - 20)
