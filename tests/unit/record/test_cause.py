"""How a process ended is told from its markers, and from nobody else's."""

from __future__ import annotations

import os
import signal
import struct

import pytest

from opscope.native import shared
from opscope.record.cause import in_marker, of_exception, of_ring
from opscope.record.python_writer import PythonWriter
from opscope.record.reading import RingReader
from opscope.record.ring import Ring, Sizes

Marks = list[tuple[int, int]]


def ring_with(marks: Marks) -> Ring:
    ring, writer = Ring.in_memory(Sizes(8, 1024, 4, 256, 256, 256)), PythonWriter()
    writer.attach(ring)
    for kind, number in marks:
        writer.mark(kind, number)
    return ring


def cause(ring: Ring, alive: bool = False, oom_kills: int = 0) -> str:
    return of_ring(RingReader(ring.memory[:]), alive, oom_kills).kind


SIGNAL, EXIT, FINISHED = shared.MARKER_SIGNAL, shared.MARKER_EXIT, shared.MARKER_FINISHED


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], "killed"),
        ([(SIGNAL, signal.SIGTERM)], "SIGTERM"),
        ([(SIGNAL, signal.SIGTERM), (EXIT, 0)], "SIGTERM"),
        ([(SIGNAL, signal.SIGTERM), (EXIT, 20)], "SIGTERM"),
        ([(SIGNAL, signal.SIGINT), (SIGNAL, signal.SIGSEGV)], "SIGSEGV"),
        ([(FINISHED, 0), (EXIT, 3)], "exit"),
        ([(FINISHED, 0), (EXIT, 0)], "end"),
        ([(FINISHED, 0), (SIGNAL, signal.SIGSEGV)], "SIGSEGV"),
        ([(shared.MARKER_FAST_EXIT, 0)], "os._exit"),
        ([(shared.MARKER_EXCEPTION, 0)], "exception"),
        ([(shared.MARKER_EXCEPTION, 0), (SIGNAL, signal.SIGTERM)], "exception"),
        ([(shared.MARKER_EXCEPTION, 1), (SIGNAL, signal.SIGTERM)], "SIGTERM"),  # of a thread
    ],
)
def test_what_the_markers_say(marks: Marks, expected: str) -> None:
    assert cause(ring_with(marks)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (9 << 8, ("os._exit", "native code left with the code 9 at once, as _exit does")),
        (signal.SIGSEGV, ("SIGSEGV", "SIGSEGV, in which no handler could run")),
        (signal.SIGKILL, ("killed", "killed from outside (SIGKILL)")),
        (None, ("killed", "killed from outside (SIGKILL, or the machine stopped)")),
    ],
)
def test_what_the_kernel_says(status: int | None, expected: tuple[str, str]) -> None:
    found = of_ring(RingReader(ring_with([]).memory[:]), False, status=status)
    assert (found.kind, found.text) == expected


def test_a_process_that_runs() -> None:
    assert cause(ring_with([]), alive=True) == "running"
    assert cause(ring_with([(SIGNAL, signal.SIGTERM)]), alive=True) == "running"


def test_the_markers_of_a_child_do_not_count() -> None:
    ring = ring_with([(SIGNAL, signal.SIGTERM)])
    struct.pack_into("<i", ring.memory, shared.RING_MARKERS + 4, os.getpid() + 1)
    assert cause(ring) == "killed"


def test_the_kernel_ran_out_of_memory() -> None:
    ring = ring_with([])
    ring["oom_kills"] = 2
    assert cause(ring, oom_kills=2) == "killed"
    assert cause(ring, oom_kills=3) == "out of memory"


def test_a_hang_ends_when_operators_run() -> None:
    ring = ring_with([(shared.MARKER_HANG, 5)])
    assert cause(ring, alive=True) == "hang"
    assert cause(ring) == "hang"
    ring["head"] = 7
    assert cause(ring, alive=True) == "running"
    assert cause(ring) == "killed"


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("ValueError", "x", "exception"),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate", "out of memory"),
        ("MemoryError", "", "out of memory"),
        (
            "RuntimeError",
            "DefaultCPUAllocator: can't allocate memory",
            "out of memory",
        ),
        ("AcceleratorError", "CUDA error: device-side assert triggered", "device error"),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", "device error"),
        ("KeyboardInterrupt", "", "SIGINT"),
    ],
)
def test_exceptions(kind: str, message: str, expected: str) -> None:
    assert of_exception(kind, message).kind == expected


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory", "out of memory"),
        ("MemoryError", "", "out of memory"),
        ("OutOfMemoryError", "CUDA out of memory. Tried", "out of memory"),
        ("AcceleratorError", "CUDA error: device-side assert triggered", "device error"),
        ("ValueError", "out: of luck", "exception"),
        ("AnExceptionWithAVeryLongNameIndeed", "out of memory", "out of memory"),
    ],
)
def test_a_marker_tells_the_cause_of_an_exception(kind: str, message: str, expected: str) -> None:
    """Where the process could not write what it knew of the exception."""
    text = in_marker(kind, message)
    assert len(text.encode()) < 32
    ring, writer = Ring.in_memory(Sizes(8, 1024, 4, 256, 256, 256)), PythonWriter()
    writer.attach(ring)
    writer.mark(shared.MARKER_EXCEPTION, 0, text)
    assert cause(ring) == expected
