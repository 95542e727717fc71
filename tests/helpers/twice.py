"""The same program watched by the native hook and by Python alone, as facts that can be compared.

Facts are plain values: names instead of nodes, so that two runs of a program can be equal.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from opscope.calls import Calls
from opscope.capture import hook
from opscope.capture.torch_capture import TorchCapture
from opscope.events import BaseSink, Call, Node, Output, PassingValue, Source, StepRecord, Want
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.stats.engine import Engine, NumpyEngine
from opscope.stats.row import Row

STATS = Want.INPUT_STATS | Want.OUTPUT_STATS | Want.OUTSIDE_STATS
VALUES = Want.INPUT_VALUES | Want.OUTPUT_VALUES
_NARROW = (torch.float8_e4m3fn, torch.float8_e5m2)
_ULPS = 4
"""How many units in the last place |x| of a complex element may be off."""
EXACT = ("count", "min", "max", "nan", "posinf", "neginf", "zero", "negative", "positive")

Place = tuple[int, int, str, str, int, str, tuple[int, ...]]
"""Step, call, node, io, slot, dtype and shape of a row."""


def hook_is_there() -> bool:
    """Tell whether native code would handle call sites here."""
    return bool(Engine().row_function) and hook.load() is not None


needs_hook = pytest.mark.skipif(
    not hook_is_there(), reason="the native hook is not built: python -m opscope.native"
)


@dataclass
class Step:
    """A step as it was delivered."""

    number: int
    complete: bool
    skipped: bool
    orders: dict[int, list[str]]
    losses: list[tuple[float, str]]
    sources: dict[str, list[str]]
    """Of every node that ran, as of its last call."""
    calls: list[str]
    """Each in words: its node, its pass, where its inputs came from, and which call made them."""
    changed: list[str]


@dataclass
class Facts:
    """What a sink was told of one run."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rows: dict[Place, Row] = field(default_factory=dict)
    values: dict[Place, torch.Tensor] = field(default_factory=dict)
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Calls handled natively and calls left to Python, so far, at each step's end."""
    told: list[int] = field(default_factory=list)
    """The calls that torch has told of so far, at each step's end."""
    result: Any = None

    def native_share(self, after: int = 1) -> float:
        """The share of the calls after this step that native code handled."""
        before, last = self.counts[after], self.counts[-1]
        native, python = last[0] - before[0], last[1] - before[1]
        return native / max(1, native + python)


class _Listener(BaseSink):
    def __init__(self, wanted: Want) -> None:
        self.wanted = wanted
        self.nodes: list[Node] = []
        self.facts = Facts()
        self.capture: TorchCapture

    def wants(self, node: Node) -> Want:
        return self.wanted

    def node(self, node: Node) -> None:
        self.nodes.append(node)

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        for slot, tensor, source in values:
            assert call.node.sources[slot] is source
            self._keep(call, "input", slot, tensor)

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        for slot, tensor, _ in values:
            self._keep(call, "output", slot, tensor)

    def _keep(self, call: Call, io: str, slot: int, tensor: torch.Tensor) -> None:
        if tensor.layout is torch.strided and tensor.dtype not in _NARROW:
            place = (call.step, call.index, call.node.name, io, slot, *_kind(tensor))
            self.facts.values[place] = tensor.detach().clone()

    def stats(self, rows: Rows) -> None:
        assert all(record["valid"] for record in rows.records)
        for call, io, slot, dtype, shape, row in rows:
            assert call.time_us > 0
            place = (call.step, call.index, call.node.name, str(io), slot, dtype, shape)
            assert place not in self.facts.rows, place
            self.facts.rows[place] = row

    def step_end(self, record: StepRecord) -> None:
        orders = {graph: [node.name for node in nodes] for graph, nodes in record.orders.items()}
        step = Step(
            record.step,
            record.complete,
            record.skipped,
            orders,
            [(loss.value, _name(loss.node)) for loss in record.losses],
            {
                node.name: list(map(describe, record.calls.sources_of(call)))
                for call, node in enumerate(record.calls.nodes)
            },
            [_call(record.calls, call) for call in range(len(record.calls))],
            sorted({node.name for node in record.calls.renewed}),
        )
        self.facts.steps.append(step)
        native = self.capture._watch.hook
        self.facts.counts.append(native.counts if native is not None else (0, 0))
        self.facts.told.append(native.told if native is not None else 0)

    def close(self) -> None:
        self.facts.nodes = [facts_of(node) for node in self.nodes]


def _kind(tensor: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)


def _call(calls: Calls, call: int) -> str:
    inputs = [
        f"{describe(source)}@{calls.producer(call, slot)}"
        for slot, source in enumerate(calls.sources_of(call))
    ]
    return f"{calls.nodes[call].name} in {calls.pass_of(call)}: {', '.join(inputs)}"


def describe(source: Source) -> str:
    """A source in words."""
    if isinstance(source, Output):
        return f"{source.node.name}:{source.slot}"
    return f"{source.kind} {source.name!r} of {source.subject!r}"


def _name(node: Node | None) -> str:
    return "" if node is None else node.name


def facts_of(node: Node) -> dict[str, Any]:
    """All that is known of a node, without what differs from process to process."""
    return {
        "name": node.name,
        "graph": node.graph,
        "op_type": node.op_type,
        "op": node.op,
        "scope": node.scope,
        "module_class": node.module_class,
        "phase": node.phase.value,
        "where": node.stack.where,
        "stack": node.stack.frames,
        "forward": _name(node.forward),
        "parameter": node.parameter,
        "gradient_of": node.gradient_of,
        "arguments": node.arguments,
        "outputs": [(o.slot, o.parameter, o.subject, o.uninitialised) for o in node.outputs],
        "raised": node.raised,
    }


def engine(native: bool) -> Engine:
    """With the hook, or without any native code."""
    return NumpyEngine() if native is False else Engine()


@contextlib.contextmanager
def capturing(sink: Any, native: bool) -> Iterator[TorchCapture]:
    """Watch a block with this sink; or by the fallback."""
    capture = TorchCapture(Pipeline([sink], engine(native)), lambda: 0)
    sink.capture = capture
    capture.start()
    try:
        if native:
            assert capture._watch.hook is not None
        else:
            assert capture._watch.hook is None
        yield capture
    finally:
        capture.stop()


def watch(program: Callable[[], Any], native: bool, wanted: Want = STATS) -> Facts:
    """What a sink is told of a program."""
    listener = _Listener(wanted)
    with capturing(listener, native):
        result = program()
    listener.facts.result = result
    return listener.facts


def watch_twice(program: Callable[[], Any], wanted: Want = STATS) -> tuple[Facts, Facts]:
    """Seen to natively, then with Python told of every call; called from one line, so that stacks
    can be equal.
    """
    found = []
    for natively in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hook.Hook, "natively", natively)
            found.append(watch(program, True, wanted))
    return found[0], found[1]


def assert_same_row(found: Row, expected: Row, where: object = "", dtype: str = "") -> None:
    """Counts, min and max equal; moments as near as two rows of docs/statistics.md may be."""
    integers = isinstance(expected.min, int)
    spread = expected.max - expected.min if integers else 0
    rounding = _ULPS * 2.0**-53 if "complex" in dtype else 0.0
    allowed = {
        **dict.fromkeys(EXACT, 0.0),
        "min": rounding * abs(expected.min),
        "max": rounding * abs(expected.max),
        "mean": 0.0 if integers else 2e-12 * expected.mean_abs,
        "mean_abs": 0.0 if integers else 2e-12 * expected.mean_abs,
        "l2": 2e-12 * expected.l2,
        "std": 2e-12 * expected.std + 2e-18 * expected.mean_abs + 2.0**-51 * spread,
    }
    for name, bound in allowed.items():
        one, other = getattr(found, name), getattr(expected, name)
        near = _same(one, other) or (bound and abs(one - other) <= bound + 1e-322)
        assert near, (where, name, found, expected)


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def assert_same_nodes(one: Facts, other: Facts) -> None:
    """The same call sites, in the order they were first seen."""
    assert [node["name"] for node in one.nodes] == [node["name"] for node in other.nodes]
    for found, expected in zip(one.nodes, other.nodes, strict=True):
        assert found == expected, found["name"]


def assert_same_steps(one: Facts, other: Facts) -> None:
    """The same orders, losses and edges, step by step."""
    assert len(one.steps) == len(other.steps)
    for found, expected in zip(one.steps, other.steps, strict=True):
        assert found == expected, found.number


def is_garbage(place: Place, setup: set[str]) -> bool:
    """Whether a value may be memory that nothing was written to, which differs from run to run.

    That is so for what a setup reads and for what new parameters were before they were filled
    (`uniform_`), for the bytes a deep copy writes to, and for oneDNN's workspace.
    """
    step, _, name, io, slot, dtype, _ = place
    op_type = name.rpartition("/")[2].rpartition("-op")[0]
    if op_type.startswith("mkldnn_rnn_layer") and dtype == "uint8":
        return True
    if io == "input":
        raw = step == 0 and name in setup
        return raw or (
            slot == 0 and (op_type in ("uniform_", "fill_") or (op_type, dtype) == _COPIED_BYTES)
        )
    return op_type == "resize_" or (op_type, dtype) == ("set_", "uint8")


_COPIED_BYTES = ("copy_", "uint8")


def assert_same_rows(one: Facts, other: Facts) -> None:
    """The same rows of the same values."""
    assert one.rows.keys() == other.rows.keys()
    setup = {node["name"] for node in one.nodes if node["phase"] == "setup"}
    for place, row in one.rows.items():
        if not is_garbage(place, setup):
            assert_same_row(row, other.rows[place], place, place[5])


def assert_same_values(one: Facts, other: Facts) -> None:
    """The same tensors, bit by bit."""
    assert one.values.keys() == other.values.keys()
    setup = {node["name"] for node in one.nodes if node["phase"] == "setup"}
    for place, value in one.values.items():
        if not is_garbage(place, setup):
            assert torch.equal(_bytes(value), _bytes(other.values[place])), place


def _bytes(value: torch.Tensor) -> torch.Tensor:
    return value.resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def assert_same_facts(one: Facts, other: Facts) -> None:
    """Everything a sink is told."""
    assert_same_nodes(one, other)
    assert_same_steps(one, other)
    assert_same_rows(one, other)
    assert_same_values(one, other)
