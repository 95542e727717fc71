"""What is kept of operators with bad outputs while their tensors are at hand."""

from __future__ import annotations

import math
from typing import Any

import torch

from opscope.events import SETUP_GRAPH, TRAINING_GRAPH, Node, Phase, Stack
from opscope.judge.origin.birth import Bad, Birth
from opscope.watch import witness as module
from opscope.watch.witness import Witness

NAN = math.nan


def node(number: int, graph: int = TRAINING_GRAPH) -> Node:
    return Node(number, graph, f"x-op{number}", "x", "", "", "", Phase.FORWARD, Stack(0, ()))


def values(witness: Witness, made: Node, call: int = 0) -> Any:
    return witness.values(Birth(made, call, 0, Bad(1, 1, 0, 0, 0)))


def test_values_are_copied() -> None:
    witness, made = Witness(), node(0)
    x, y = torch.tensor([0.0, 1.0]), torch.tensor([-math.inf, 0.0])
    witness.see(made, 0, True, [x], [y, None])
    y.zero_()
    x.fill_(9.0)
    found = values(witness, made)
    assert found["input.0"].tolist() == [0.0, 1.0]
    assert found["output.0"].tolist() == [-math.inf, 0.0]
    assert found.keys() == {"input.0", "output.0"}
    assert values(witness, made, call=1) == {}


def test_inputs_that_were_bad_are_noted_and_nothing_is_kept() -> None:
    witness, made = Witness(), node(0)
    witness.see(made, 5, True, [torch.ones(2), torch.tensor([NAN])], [torch.tensor([NAN])])
    assert witness.bad_inputs(made, 5) == [1]
    assert witness.bad_inputs(made, 6) == ()
    assert values(witness, made, 5) == {}


def test_an_input_that_the_operator_wrote_to_tells_nothing() -> None:
    witness, made = Witness(), node(0)
    x = torch.tensor([NAN, 1.0])
    witness.see(made, 0, True, [x, torch.ones(2)], [x])
    assert witness.bad_inputs(made, 0) == ()
    assert values(witness, made).keys() == {"input.1", "output.0"}


def test_only_the_first_few_are_kept() -> None:
    witness = Witness()
    for number in range(10):
        witness.see(node(number), number, True, [torch.ones(1)], [torch.tensor([NAN])])
    kept = [number for number in range(10) if values(witness, node(number), number)]
    assert kept == [0, 1, 2, 3]
    witness.end_step([node(0)])
    assert values(witness, node(0)) == {}
    witness.see(node(0), 3, True, [torch.ones(1)], [torch.tensor([NAN])])
    assert values(witness, node(0), 3)


def test_large_ones_are_not_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_BYTES", 100)
    witness = Witness()
    witness.see(node(0), 0, True, [torch.ones(10)], [torch.full((20,), NAN)])
    witness.see(node(1), 1, True, [torch.ones(10)], [torch.full((5,), NAN)])
    witness.see(node(2), 2, True, [torch.ones(10)], [torch.full((5,), NAN)])
    assert [bool(values(witness, node(n), n)) for n in range(3)] == [False, True, False]


def test_who_writes_infinities_without_fault_is_left_in_peace() -> None:
    witness, harmless, guilty = Witness(), node(0), node(1)
    for made in (harmless, guilty):
        witness.see(made, 0, False, [torch.ones(1)], [torch.tensor([-math.inf])])
    witness.end_step([guilty])
    for made in (harmless, guilty):
        witness.see(made, 0, False, [torch.ones(1)], [torch.tensor([-math.inf])])
    assert not values(witness, harmless) and values(witness, guilty)
    witness.see(harmless, 1, True, [torch.ones(1)], [torch.tensor([NAN])])
    assert values(witness, harmless, 1), "a NaN is never on purpose"


def test_odd_tensors() -> None:
    witness = Witness()
    odd = [torch.eye(2).to_sparse(), torch.ones(2, dtype=torch.int64), torch.empty(0)]
    odd.append(torch.empty(2, device="meta"))
    witness.see(node(0), 0, True, odd, [torch.tensor([NAN])])
    assert "output.0" in values(witness, node(0))
    witness.see(node(1, SETUP_GRAPH), 0, True, [], [torch.tensor([NAN])])
    assert values(witness, node(1)) == {}
