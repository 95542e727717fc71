"""Elements in a range and changes of weights, from the tensors themselves."""

from __future__ import annotations

import numpy as np
import torch

from opscope.calls import Calls, note_sources
from opscope.events import (
    TRAINING_GRAPH,
    Call,
    Node,
    Output,
    Outside,
    PassingValue,
    Phase,
    Stack,
    Want,
)
from opscope.judge.outcome import CHECKED, NO_PREVIOUS, NO_VALUES, RESHAPED
from opscope.judge.parsing import make
from opscope.judge.table import Table
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import ROW_DTYPE
from opscope.watch.compared import TensorComparison


def node(op: str, phase: Phase = Phase.FORWARD, gradient_of: str = "") -> Node:
    made = Node(
        0, TRAINING_GRAPH, f"Default/{op}-op0", op, f"aten.{op}", "Default", "", phase,
        Stack(0, ()), gradient_of=gradient_of,
    )  # fmt: skip
    made.outputs = [Output(made, 0)]
    return made


def compared(*watchpoints: Watchpoint) -> TensorComparison:
    made = TensorComparison(Table(lambda number: node("relu")))
    made.watch(watchpoints)
    return made


ROWS = np.arange(1)
RANGE = {"range_percentage_gt": 10.0, "range_start_inclusive": 0.0, "range_end_inclusive": 1.0}


def test_what_is_wanted() -> None:
    plain = compared(make("TL", 1, max_gt=0.0))
    assert plain.wants(node("relu")) == Want.NOTHING
    activations = compared(make("AR", 1, **RANGE))
    assert activations.wants(node("relu")) == Want.OUTPUT_VALUES
    assert activations.wants(node("mm")) == Want.NOTHING, "no activation"
    only_max = compared(make("AR", 1, max_min_gt=1.0))
    assert only_max.wants(node("relu")) == Want.NOTHING, "rows are enough"
    reads = node("addmm")
    reads.sources[:] = [Outside("parameter", "w", "w")]
    assert compared(make("WCL", 1)).wants(reads) == Want.PARAMETERS
    assert compared(make("WCL", 1)).wants(node("relu")) == Want.NOTHING


def test_a_node_that_has_ever_read_a_parameter_may_do_so_again() -> None:
    reads = node("addmm")
    reads.sources[:] = [Outside("parameter", "w", "w")]
    note_sources(Calls(), 0, reads, [Output(reads, 0)])
    assert compared(make("WCL", 1)).wants(reads) == Want.PARAMETERS


def test_a_node_that_comes_to_read_a_parameter_is_asked_about_anew() -> None:
    made, fills = compared(make("WCL", 1)), node("uniform_")
    reads = node("addmm")
    reads.sources[:] = [Output(fills, 0)]
    assert made.wants(reads) == Want.NOTHING
    assert not made.misses([reads]), "it still reads what an operator made"
    note_sources(Calls(), 0, reads, [Outside("parameter", "w", "w")])
    assert made.misses([reads])
    assert made.wants(reads) == Want.PARAMETERS
    assert not made.misses([reads]), "once is enough"
    assert not compared(make("TL", 1, max_gt=0.0)).misses([reads])


def test_gradients_of_a_parameter_are_wanted() -> None:
    made = compared(make("TR", 1, cls="gradient", parameter="w", **RANGE))
    assert made.wants(node("mm", Phase.BACKWARD, "w")) == Want.OUTPUT_VALUES
    assert made.wants(node("mm", Phase.BACKWARD, "v")) == Want.NOTHING
    assert made.wants(node("mm")) == Want.NOTHING


def test_elements_in_a_range() -> None:
    watchpoint = make("TR", 1, **RANGE)
    made = compared(watchpoint)
    tensor = torch.tensor([-0.5, 0.0, 0.5, 1.0, 1.5, float("nan"), float("inf")])
    made.outputs(Call(node("relu"), 0, 0, 0, 0), [PassingValue(0, tensor, None)])
    records = np.zeros(2, ROW_DTYPE)
    records["slot"] = [0, 1]
    found = made.columns(watchpoint, records, (), ROWS)
    assert found.in_range.tolist() == [3, -1], "both ends belong to it"
    assert found.missing.tolist() == [CHECKED, NO_VALUES]


def test_changes() -> None:
    watchpoint = make("WCL", 1)
    made = compared(watchpoint)
    weight = torch.tensor([1.0, 2.0])

    def change(step: int) -> tuple[int, float, float]:
        records = np.zeros(1, ROW_DTYPE)
        records["step"] = step
        found = made.columns(watchpoint, records, ["w"], ROWS)
        change = found.change
        assert change is not None and found.missing is not None
        return int(found.missing[0]), float(change.mean[0]), float(change.mean_abs_before[0])

    assert change(0)[0] == NO_PREVIOUS
    made.parameter(0, "w", weight)
    assert change(0)[0] == NO_PREVIOUS
    weight.add_(0.5)
    made.parameter(1, "w", weight)
    assert change(1) == (CHECKED, 0.5, 1.5), "what it was is kept, not a reference to it"
    made.parameter(2, "w", torch.ones(3))
    assert change(2)[0] == RESHAPED
    made.parameter(3, "w", torch.ones(3, dtype=torch.float64))
    assert change(3) == (CHECKED, 0.0, 1.0)
    assert change(4)[0] == NO_VALUES, "it was not looked at in that step"


def test_what_was_kept_is_dropped_with_the_last_watchpoint() -> None:
    made = compared(make("WCL", 1))
    made.parameter(0, "w", torch.ones(2))
    made.watch([])
    assert made._before == {}
    made.parameter(1, "w", torch.ones(2))
    assert made._before == {}


def test_tensors_without_numbers() -> None:
    watchpoint = make("TR", 1, **RANGE)
    made = compared(watchpoint, make("WCL", 2))
    made.outputs(Call(node("relu"), 0, 0, 0, 0), [PassingValue(0, torch.eye(2).to_sparse(), None)])
    found = made.columns(watchpoint, np.zeros(1, ROW_DTYPE), (), ROWS)
    assert found.missing.tolist() == [NO_VALUES]
    made.parameter(0, "w", torch.eye(2).to_sparse())
