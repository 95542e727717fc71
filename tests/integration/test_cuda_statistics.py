"""The CUDA engine among streams, graphs, a lagging GPU and an allocator that reuses memory."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from opscope.stats.cuda import engine as engine_module
from opscope.stats.cuda.engine import CudaRows
from opscope.stats.cuda.fallback import FallbackRows
from opscope.stats.cuda.forms import programs
from opscope.stats.record import ROW_BYTES, ROW_DTYPE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

Array = np.ndarray[Any, Any]
LONG = 50_000_000
"""Clock cycles: some 25 ms, while the host goes on."""


class Book:
    """Records, and the constant every element of their tensors has."""

    def __init__(self, engine: CudaRows, size: int) -> None:
        self.engine = engine
        self.records = np.zeros(size, ROW_DTYPE)
        self.constants: list[float] = []

    def submit(self, tensor: torch.Tensor, constant: float) -> None:
        self.engine.submit(tensor, self.records.ctypes.data + ROW_BYTES * len(self.constants))
        self.constants.append(constant)

    def check(self) -> None:
        found = self.records[: len(self.constants)]
        assert found["valid"].all()
        expected = np.array(self.constants)
        for name in ("min", "max", "mean"):
            wrong = np.flatnonzero(found[name] != expected)
            assert not wrong.size, (name, wrong[:5], found[name][wrong[:5]], expected[wrong[:5]])


def finish(engine: CudaRows) -> None:
    ticket = engine.flush()
    ticket.wait()
    ticket.deliver()


@pytest.mark.parametrize("lag", [False, True])
def test_memory_is_read_before_it_is_used_again(lag: bool) -> None:
    """Tensors are freed, overwritten and reallocated on several streams right after a submit."""
    engine = CudaRows()
    generator = random.Random(0)
    streams = [torch.cuda.current_stream(), *(torch.cuda.Stream() for _ in range(3))]
    sizes = [1, 63, 1000, 40_000, 300_000, 2_000_000]
    tickets, books = [], []
    for step in range(12):
        book = Book(engine, 400)
        if lag and step == 3:
            for stream in streams:
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(LONG)
        for number in range(400):
            stream = streams[0] if generator.random() < 0.7 else generator.choice(streams)
            constant = float(step * 400 + number)
            with torch.cuda.stream(stream):
                size = generator.choice(sizes)
                tensor = torch.full((size,), constant, device="cuda")
                book.submit(tensor, constant)
                choice = generator.random()
                if choice < 0.3:
                    engine.before_write(tensor)
                    tensor.fill_(-1.0)
                elif choice < 0.5:
                    engine.before_write(tensor.view(-1))
                    tensor.add_(1.0)
                del tensor
                scratch = torch.full((generator.choice(sizes),), -2.0, device="cuda")
                del scratch
        tickets.append(engine.flush())
        books.append(book)
    for ticket, book in zip(tickets, books, strict=True):
        ticket.wait()
        ticket.deliver()
        book.check()


def test_memory_of_another_stream_is_held_until_it_was_read() -> None:
    """A stream that waited for the reader too early must not get the memory back."""
    engine = CudaRows()
    other = torch.cuda.Stream()
    book = Book(engine, 200)
    for number in range(100):
        with torch.cuda.stream(other):
            tensor = torch.full((5000,), float(number), device="cuda")
        torch.cuda.current_stream().wait_stream(other)
        book.submit(tensor, float(number))
        with torch.cuda.stream(other):
            mine = torch.full((64,), 7.0, device="cuda")
            book.submit(mine, 7.0)
        if number == 10:
            torch.cuda._sleep(LONG)
        other.wait_stream(torch.cuda.current_stream())
        del tensor
        with torch.cuda.stream(other):
            torch.full((5000,), -3.0, device="cuda")
    finish(engine)
    book.check()


def test_steps_may_run_ahead_of_the_device() -> None:
    engine = CudaRows()
    warm = np.zeros(2, ROW_DTYPE)
    for place, count in enumerate((3000, 1 << 21)):  # kernels are compiled before the clock runs
        engine.submit(torch.ones(count, device="cuda"), warm.ctypes.data + ROW_BYTES * place)
    finish(engine)
    torch.cuda._sleep(LONG * 4)
    tickets, books = [], []
    for step in range(6):
        book = Book(engine, 120)
        for number in range(100):
            book.submit(torch.full((3000,), float(step + number), device="cuda"), step + number)
        for number in range(20):
            large = torch.full((1 << 21,), float(-number), device="cuda")
            book.submit(large, -number)
        tickets.append(engine.flush())
        books.append(book)
    assert not tickets[0].ready()
    assert not books[0].records["valid"].any()
    for ticket, book in zip(tickets, books, strict=True):
        ticket.wait()
        ticket.deliver()
        book.check()


def test_a_flush_does_not_wait() -> None:
    engine = CudaRows()
    record = np.zeros(1, ROW_DTYPE)
    for _ in range(3):
        engine.submit(torch.ones(10, device="cuda"), record.ctypes.data)
        finish(engine)
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG * 4)
    engine.submit(torch.ones(10, device="cuda"), record.ctypes.data)
    engine.submit(torch.ones(1 << 21, device="cuda"), record.ctypes.data)
    ticket = engine.flush()
    assert not torch.cuda.current_stream().query()
    assert not ticket.ready()
    ticket.wait()
    assert ticket.ready()


def test_rows_of_several_streams_in_one_step() -> None:
    engine = CudaRows()
    book = Book(engine, 40)
    for number in range(40):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1_000_000)
            tensor = torch.full((1 << (number % 20 + 1),), float(number), device="cuda")
            book.submit(tensor, float(number))
    finish(engine)
    book.check()


def test_capturing_a_graph_goes_on() -> None:
    engine = CudaRows()
    book = Book(engine, 10)
    static = torch.ones(64, device="cuda")
    book.submit(static, 1.0)  # small: it waits across the capture
    graph = torch.cuda.CUDAGraph()
    skipped = np.zeros(3, ROW_DTYPE)
    with torch.cuda.graph(graph):
        result = static * 2
        engine.submit(result, skipped.ctypes.data)
        large = torch.zeros(1 << 21, device="cuda") + 1
        engine.submit(large, skipped.ctypes.data + ROW_BYTES)
        engine.before_write(static)
        ticket = engine.flush()
        engine.submit(result[::2], skipped.ctypes.data + 2 * ROW_BYTES)
    assert ticket.ready()
    ticket.deliver()
    assert engine.skipped_in_capture == 3
    engine.before_write(static)
    static.fill_(3.0)
    graph.replay()
    assert result.eq(6).all()
    finish(engine)
    book.check()
    assert not skipped["valid"].any()


def test_results_are_the_same_bits_every_time() -> None:
    engine = CudaRows()
    tensors = [torch.randn(size, device="cuda") for size in (10, 5000, 250_000, 3_000_001)]
    tensors += [tensor.bfloat16() for tensor in tensors]
    seen = set()
    for _ in range(5):
        records = np.zeros(len(tensors), ROW_DTYPE)
        for place, tensor in enumerate(tensors):
            engine.submit(tensor, records[place:].ctypes.data)
        finish(engine)
        seen.add(records.tobytes())
    assert len(seen) == 1


def test_the_memory_for_two_thousand_rows_is_small() -> None:
    engine = CudaRows()
    records = np.zeros(2000, ROW_DTYPE)
    large, small = torch.ones(6 << 20, device="cuda").bfloat16(), torch.ones(768, device="cuda")
    for _ in range(3):
        for place in range(2000):
            engine.submit(large if place % 3 == 0 else small, records[place:].ctypes.data)
        finish(engine)
    assert records["valid"].all()
    assert engine.device_bytes < 40 << 20


def test_without_triton(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    engine = CudaRows()
    book = Book(engine, 60)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    for number in range(60):
        with torch.cuda.stream(streams[number % 2]):
            tensor = torch.full((1 << number % 18,), float(number), device="cuda")
            book.submit(tensor, float(number))
            tensor.fill_(-1.0)
    finish(engine)
    book.check()
    assert isinstance(engine._devices[0], FallbackRows)
    assert engine_module._no_triton(0, True) == "Triton is not installed"


def test_the_slow_launch_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from opscope.stats.cuda import launch

    tensors = [torch.randn(n, device="cuda") for n in (100, 70_000, 1_000_000)]

    def bits() -> bytes:
        engine = CudaRows()
        records = np.zeros(3, ROW_DTYPE)
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for place, tensor in enumerate(tensors):
                engine.submit(tensor, records[place:].ctypes.data)
            finish(engine)
        assert records["valid"].all()
        return records.tobytes()

    fast = bits()
    for cached in (launch.parts_kernel, launch.finish_kernel):
        cached.cache_clear()
    monkeypatch.setattr(launch, "_scratch", lambda run: True)
    assert bits() == fast
    kernel = launch.finish_kernel(0)
    assert kernel.launch.__name__ == "launch" and kernel.packed is None
    for cached in (launch.parts_kernel, launch.finish_kernel):
        cached.cache_clear()


def test_a_native_caller_can_launch_by_itself() -> None:
    """Through the driver's own function, with parameters as documented."""
    import ctypes

    from opscope.stats.cuda import forms
    from opscope.stats.cuda.launch import finish_kernel, launch_info

    tensor = torch.randn(3_000_001, device="cuda")
    info = launch_info(torch.float32)
    count = tensor.numel()
    grid = programs(count, info.group)
    parts = torch.empty(grid * forms.PART_BYTES // 8, dtype=torch.int64, device="cuda")
    head = torch.empty(forms.HEAD_BYTES // 8, dtype=torch.int64, device="cuda")
    out = torch.empty(16, dtype=torch.int64, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    stream = torch._C._cuda_getCurrentRawStream(0)

    def call(function: int, blocks: int, threads: int, shared: int, values: list[int]) -> None:
        boxes = [ctypes.c_int64(value) for value in values]
        pointers = (ctypes.c_void_p * len(boxes))(*(ctypes.addressof(box) for box in boxes))
        done = driver.cuLaunchKernel(
            ctypes.c_void_p(function), blocks, 1, 1, threads, 1, 1, shared,
            ctypes.c_void_p(stream), pointers, None,
        )  # fmt: skip
        assert done == 0

    values = [0, tensor.data_ptr(), count, parts.data_ptr(), head.data_ptr(), 1, 0, 0]
    call(info.function, grid, info.threads, info.shared, values)
    last = finish_kernel(0)
    call(last.function, 1, 128, last.shared, [head.data_ptr(), out.data_ptr(), 0, 0])
    row = out.cpu()
    assert row[1] == count
    assert row[2:8].view(torch.float64)[0] == tensor.min().item()
    mean = tensor.double().mean().item()
    assert row[2:8].view(torch.float64)[2].item() == pytest.approx(mean, abs=1e-6)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_devices_other_than_the_current_one() -> None:
    engine = CudaRows()
    book = Book(engine, 20)
    for number in range(20):
        device = f"cuda:{number % torch.cuda.device_count()}"
        size = 10 if number % 3 else 1 << 21
        book.submit(torch.full((size,), float(number), device=device), float(number))
    finish(engine)
    book.check()


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16])
def test_more_than_two_to_the_31_elements(dtype: torch.dtype) -> None:
    engine = CudaRows()
    count = 2**31 + 12_345
    tensor = torch.ones(count, dtype=dtype, device="cuda")
    tensor[-1] = 3
    tensor[2**31 + 5] = 0
    record = np.zeros(1, ROW_DTYPE)
    engine.submit(tensor, record.ctypes.data)
    finish(engine)
    assert record["count"][0] == count and record["zero"][0] == 1
    assert record["mean"][0] == pytest.approx((count + 1) / count, rel=1e-12)
    low, high = ("min_int", "max_int") if dtype is torch.uint8 else ("min", "max")
    assert (record[low][0], record[high][0]) == (0, 3)


def test_importing_the_engine_loads_neither_torch_nor_triton() -> None:
    code = (
        "import sys, opscope.stats.cuda.engine\n"
        "print(sorted({'torch', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
