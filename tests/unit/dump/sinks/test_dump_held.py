from __future__ import annotations

import gc
import weakref

import torch
from made_dump import make_node

from opscope.dump.sinks.held import HeldInputs
from opscope.events import Call, Node, Outside, PassingValue


def call_of(op: str) -> Call:
    node: Node = make_node()
    node.op = op
    return Call(node, 0, 0, 0, 0)


def test_inputs_that_may_be_written_to_are_copied() -> None:
    held, value = HeldInputs(), torch.zeros(3)
    source = Outside("batch", "x")
    reads, writes = call_of("aten.relu.default"), call_of("aten.relu_.default")
    for call in (reads, writes):
        held.keep(call, [PassingValue(0, value, source)])
    (plain,), (copy,) = held.take(reads), held.take(writes)
    assert plain.tensor is value and plain.source is source
    assert copy.tensor is not value and copy.original is value and copy.source is None
    assert torch.equal(copy.tensor, value)


def test_nothing_is_held_after_it_was_taken_or_dropped() -> None:
    held, value = HeldInputs(), torch.zeros(3)
    gone = weakref.ref(value)
    for let_go in (held.take, held.drop):
        call = call_of("aten.relu.default")
        held.keep(call, [PassingValue(0, value, None)])
        let_go(call)
        assert held.take(call) == []
    del value
    gc.collect()
    assert gone() is None


def test_calls_that_raised() -> None:
    held = HeldInputs()
    good, bad = call_of("aten.relu.default"), call_of("aten.mm.default")
    for call in (bad, good):
        held.keep(call, [PassingValue(0, torch.ones(2), None)])
    bad.node.raised = True
    ((found, inputs),) = held.raised()
    assert found is bad
    assert inputs[0].slot == 0
    assert held.raised() == []
    assert len(held.take(good)) == 1


def test_an_unknown_operator_is_taken_to_write() -> None:
    held, value = HeldInputs(), torch.zeros(3)
    call = call_of("nothing.of_this.name")
    held.keep(call, [PassingValue(0, value, None)])
    assert held.take(call)[0].tensor is not value
