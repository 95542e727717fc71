"""Making files of a ring: in the process itself, or afterwards by whoever finds it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope.atomic_files import write_whole
from opscope.locks import one_at_a_time
from opscope.native import shared
from opscope.record.blobs import as_safetensors
from opscope.record.cause import RUNNING, Cause, of_exception, of_ring
from opscope.record.exit_status import read_status
from opscope.record.graphs import execution_order, graphs_of, render
from opscope.record.in_use import header_numbers, is_in_use
from opscope.record.memory_list import memory_list
from opscope.record.places import EXCEPTION_FILE, FACTS_FILE, REPORT_FILE, read_json
from opscope.record.rank_report import rank_report
from opscope.record.ranks import compare
from opscope.record.reading import RingReader
from opscope.record.render_html import render_html
from opscope.record.render_text import render_markdown
from opscope.record.ring import RING_FILE
from opscope.record.surroundings import oom_kills
from opscope.regular import read_regular
from opscope.rundir.jsonlines import encode

MEMORY_FILE = "mem_address_list.txt"
STEPS_FILE = "steps.jsonl"
_PATIENCE_S = 30.0
BATCH_FILE, RANDOM_FILE = "batch.safetensors", "rng.safetensors"
MADE_FILES = (
    *("report.md", "report.html", REPORT_FILE, MEMORY_FILE, STEPS_FILE, BATCH_FILE, RANDOM_FILE),
    *(f"graph_{number}.{kind}" for number in range(4) for kind in ("ir", "pb")),
    *(f"graph_exec_order.{number}.txt" for number in range(4)),
)
"""The files that are made of a ring, also of one whose training hung, went on and ended well."""


def export_ring(
    folder: Path,
    ring: RingReader,
    cause: Cause,
    facts: dict[str, Any],
    exception: dict[str, Any] | None = None,
    now_ns: int | None = None,
) -> dict[str, Any]:
    """Write all files of a recording to a folder; returns what the report says."""
    folder.mkdir(parents=True, exist_ok=True)
    report = rank_report(ring, cause, facts, exception, now_ns)
    report["exported"] = time.time()
    for name, content in _files(ring, exception):
        write_whole(folder / name, content)
    report["files"] = sorted(
        {path.name for path in folder.iterdir() if path.is_file() and path.name[0] != "."}
        | {REPORT_FILE, "report.md", "report.html"}
    )
    together = compare([report])
    stacks = read_stacks(folder)
    write_whole(folder / "report.md", render_markdown(together, {0: stacks}).encode())
    write_whole(folder / "report.html", render_html(together, {0: stacks}).encode())
    write_whole(folder / REPORT_FILE, encode(report, indent=1))
    return report


def _files(ring: RingReader, exception: dict[str, Any] | None) -> Iterator[tuple[str, bytes]]:
    if exception is not None:
        yield EXCEPTION_FILE, encode(exception, indent=1)
        yield "exception.txt", str(exception["traceback"]).encode("utf-8", "backslashreplace")
    operators = ring.operators
    for graph in graphs_of(operators):
        yield f"graph_{graph.number}.ir", render(graph).encode("utf-8", "backslashreplace")
        model = _model(graph)
        if model is not None:
            yield f"graph_{graph.number}.pb", model
        yield f"graph_exec_order.{graph.number}.txt", execution_order(graph).encode()
    yield MEMORY_FILE, memory_list(operators).encode()
    yield STEPS_FILE, b"".join(encode(step) for step in ring.steps)
    for name, file in (("batch", BATCH_FILE), ("random", RANDOM_FILE)):
        content = as_safetensors(ring, name)
        if content is not None:
            yield file, content


def _model(graph: Any) -> bytes | None:
    """The graph as an ONNX model, where torch is loaded anyway."""
    loaded = sys.modules.get("opscope.record.onnx_graph")
    return None if loaded is None else bytes(loaded.encode_graph(graph))


def read_stacks(folder: Path) -> str:
    """The stacks of all threads, if they were written."""
    try:
        return read_regular(folder / "stacks.txt").decode(errors="replace")
    except OSError:
        return ""


def export_left_behind(folder: Path) -> dict[str, Any]:
    """Export the ring that a process has left in a folder, or one that is alive as it is now."""
    ring = RingReader.open(folder / RING_FILE)
    facts = read_json(folder / FACTS_FILE)
    cause, exception = cause_of(ring, facts, folder)
    now_ns = time.time_ns() if cause.kind == "hang" else None
    return export_ring(folder, ring, cause, facts, exception, now_ns)


def export_if_left(folder: Path) -> bool:
    """Export a ring whose process is gone without having done so; returns whether it was."""
    if not export_is_due(folder):
        return False
    ring = folder / RING_FILE
    with one_at_a_time(folder, _PATIENCE_S):
        found = RingReader.open(ring)
        if found.state == shared.RING_EXPORTED or is_in_use(folder, found.pid):
            return False
        export_left_behind(folder)
        with open(ring, "r+b") as file:
            file.seek(shared.RING_HEADER["state"])
            file.write(shared.RING_EXPORTED.to_bytes(8, "little"))
    return True


def export_is_due(folder: Path) -> bool:
    """Tell by its header alone whether a ring looks as if it had to be exported."""
    try:
        numbers = header_numbers(folder, "state", "pid")
    except OSError:
        return False
    if numbers is None:
        return True  # which reading it will complain of
    state, pid = numbers
    return state != shared.RING_EXPORTED and not is_in_use(folder, pid)


def cause_of(
    ring: RingReader, facts: dict[str, Any], folder: Path
) -> tuple[Cause, dict[str, Any] | None]:
    """Decide how the process of a ring ended; return the exception it noted, if any, too."""
    cause = of_ring(
        ring,
        is_in_use(folder, ring.pid),
        oom_kills(str(facts.get("cgroup", ""))),
        read_status(folder, ring.pid),
    )
    exception = read_json(folder / EXCEPTION_FILE) or None
    if exception is not None and cause.kind in ("exception", RUNNING):
        then = cause.text.partition(", then ")[1:]
        cause = of_exception(
            str(exception.get("type")), str(exception.get("message")), str(exception.get("thread"))
        )
        cause = Cause(cause.kind, cause.text + "".join(then))
    return cause, exception
