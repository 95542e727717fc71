"""Where NaN and Inf begin: what is a fault, what is on purpose, what never mattered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers.made_rows import record_of
from helpers.watched import Formula, Watched, one_step, watched
from opscope.calls import Calls
from opscope.events import TRAINING_GRAPH, Node, Outside, Phase, Stack
from opscope.judge.origin import arrival
from opscope.judge.origin.birth import FROM_RANKS, BadCause
from opscope.judge.origin.soundness import Soundness
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import INPUT, OUTPUT, ROW_DTYPE

INF, NAN = math.inf, math.nan


@pytest.fixture
def garbage() -> Iterator[None]:
    """Memory that nobody has written to holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def births(found: Watched, phase: str = "") -> list[str]:
    """The types of the operators where something began, in order."""
    hits = sorted(found.of("OO"), key=lambda hit: hit.call)
    return [
        hit.node.op_type
        for hit in hits
        if hit.node is not None and phase in ("", hit.node.phase.value)
    ]


def entered(found: Watched) -> list[tuple[str, str]]:
    """What came in from outside, and which operator read it first."""
    return [
        (hit.message.partition("the ")[2], hit.node.op_type)
        for hit in found.of("OO")
        if " came in with " in hit.message and hit.node is not None
    ]


# ------------------------------------------------------------------------------------ births


def test_a_forward_operator_makes_it(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: p * x.log(), [0.0, 1.0])
    assert births(found, "forward") == ["log"]
    (hit,) = [hit for hit in found.of("OO") if hit.node.phase is Phase.FORWARD]
    assert (hit.nan, hit.posinf, hit.neginf) == (0, 0, 1)
    assert hit.message == "log turns sound inputs into 1 -Inf of 2"


def test_what_comes_of_it_is_no_birth(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: ((p * x.log()).exp() + 1).sqrt().mean(), [0.0, 2.0])
    assert births(found, "forward") == ["log"]


def test_two_that_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: p * x.log() + (p / x), [0.0, 2.0])
    assert births(found, "forward") == ["log", "div"]


def test_a_gradient_formula_makes_it(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: (p * x).sqrt(), [0.0, 4.0])
    assert births(found) == ["div"]
    assert found.verdict["phase"] == "backward"
    assert found.verdict["forward"].endswith("/sqrt-op0")
    assert "(p * x).sqrt()" in found.verdict["code"]


def test_rounding_to_a_narrower_type_makes_it(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: (p * x).half(), [1e6, 1.0])
    assert births(found, "forward") == ["_to_copy"]


@pytest.mark.parametrize(
    "formula",
    [
        lambda p, x: x.norm() * p,
        lambda p, x: (p * x).norm(),
        lambda p, x: torch.linalg.vector_norm(p * x),
        lambda p, x: torch.nn.functional.normalize(p * x, dim=0),
        lambda p, x: (p * x).prod(),
        lambda p, x: (p + x).std(),
    ],
)
def test_a_formula_that_masks_its_own_result(formula: Any, tmp_path: Path) -> None:
    assert one_step(tmp_path, formula, [0.0, 0.0, 0.0]).hits == []


# ---------------------------------------------------------------------------------- on purpose


def masked(fill: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Attention over scores of which some are masked."""

    def formula(p: Tensor, x: Tensor) -> Tensor:
        hidden = torch.tensor([[False, True], [False, True]])
        return (fill(p * x, hidden).softmax(-1) * x).sum()

    return formula


MASKS = {
    "masked_fill": lambda scores, hidden: scores.masked_fill(hidden, -INF),
    "masked_fill_": lambda scores, hidden: scores.clone().masked_fill_(hidden, -INF),
    "where": lambda scores, hidden: torch.where(hidden, -INF, scores),
    "full": lambda scores, hidden: torch.where(hidden, torch.full((2, 2), -INF), scores),
    "full_like": lambda scores, hidden: scores + torch.full_like(scores, -INF).triu(1),
    "added": lambda scores, hidden: scores + torch.zeros(2, 2).masked_fill(hidden, -INF),
    "tensor": lambda scores, hidden: torch.where(hidden, torch.tensor(-INF), scores),
    "fill_": lambda scores, hidden: scores + torch.empty(2, 2).fill_(-INF).triu(1),
    "index_put": lambda scores, hidden: _put(scores, hidden),
    "twice": lambda s, hidden: s.masked_fill(hidden, -INF).masked_fill(hidden, -INF),
}


def _put(scores: Tensor, hidden: Tensor) -> Tensor:
    scores = scores.clone()
    scores[hidden] = -INF
    return scores


@pytest.mark.parametrize("how", MASKS)
def test_masks_of_infinities_are_no_fault(how: str, tmp_path: Path) -> None:
    found = one_step(tmp_path, masked(MASKS[how]), [[1.0, 2.0], [3.0, 4.0]])
    assert found.hits == []


def test_masks_of_the_lowest_number_added_twice(tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        low = torch.finfo(torch.float32).min
        mask = torch.zeros(2, 2).masked_fill(torch.tensor([[False, True]]), low)
        return ((p * x + mask + mask).softmax(-1) * x).sum()

    assert one_step(tmp_path, formula, [[1.0, 2.0], [3.0, 4.0]]).hits == []


def test_a_mask_in_a_buffer(tmp_path: Path) -> None:
    model = Formula(lambda p, x: ((p * x + model.mask).softmax(-1) * x).sum())
    model.register_buffer("mask", torch.full((2, 2), -INF).triu(1))
    assert one_step(tmp_path, model.formula, [[1.0, 2.0], [3.0, 4.0]], model=model).hits == []


def test_a_mask_that_comes_with_the_batch(tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        return ((p * x + mask).softmax(-1) * x).sum()

    mask = [[0.0, -INF], [0.0, 0.0]]
    assert one_step(tmp_path, formula, [[1.0, 2.0], [3.0, 4.0]], mask).hits == []


@pytest.mark.parametrize("value", [-INF, INF, 3.5])
def test_the_start_of_a_running_maximum(value: float, tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        best = torch.full((2,), value) if value < 0 else torch.full((2,), -value)
        return torch.maximum(best, p * x)

    assert one_step(tmp_path, formula, [1.0, 2.0]).hits == []


def test_a_nan_out_of_a_mask_is_a_fault(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: (p * x).masked_fill(x > 0, -INF).softmax(-1), [1.0, 2])
    assert births(found, "forward") == ["_softmax"]
    assert "everything is masked" in found.verdict["what"]
    found = one_step(tmp_path / "b", lambda p, x: (p * x).masked_fill(x > 1, -INF) * 0, [1.0, 2.0])
    assert births(found, "forward") == ["mul"]
    assert found.verdict["what"].startswith("Inf · 0 →")


def test_an_infinite_loss_of_a_mask_is_traced_to_where_nothing_was_left(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: (p * x).masked_fill(x > 0, -INF).amax(), [1.0, 2])
    assert "LN" in found.conditions
    assert found.verdict["op_type"] == "masked_fill"


# ---------------------------------------------------------------------------- unwritten memory


def test_memory_that_is_filled_piece_by_piece(garbage: None, tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        out = torch.empty(4)
        out[:2] = x
        out[2:] = x * 2
        return p * out.sum()

    assert one_step(tmp_path, formula, [1.0, 2.0]).hits == []


def test_memory_that_is_read_only_where_it_was_written(garbage: None, tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        out = torch.empty(2, 3)
        out[0].copy_(x)
        return p * out[0].sum()

    assert one_step(tmp_path, formula, [1.0, 2.0, 3.0]).hits == []


def test_memory_that_is_read_where_it_was_not_written(garbage: None, tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        out = torch.empty(4)
        out[:2] = x
        return p * out.sum()

    found = one_step(tmp_path, formula, [1.0, 2.0])
    assert births(found, "forward") == ["sum"]
    assert "memory that was never written" in found.verdict["what"]


# ------------------------------------------------------------------------------ further outputs


def test_a_further_output_that_nobody_reads(tmp_path: Path) -> None:
    singular = [[1.0, 2.0], [2.0, 4.0]]
    found = one_step(tmp_path, lambda p, x: p * torch.linalg.slogdet(x).sign, singular)
    assert found.hits == []
    found = one_step(tmp_path / "b", lambda p, x: p * torch.linalg.slogdet(x)[1], singular)
    assert births(found, "forward") == ["_linalg_slogdet"]
    assert found.verdict["slot"] == 1


# -------------------------------------------------------------------------------- from outside


def test_a_batch_counts_once_it_gets_somewhere(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: p * x, [NAN, 1.0])
    assert entered(found)[0] == ("batch input0", "mul")
    assert found.verdict["entered"] == {"kind": "batch", "name": "input0"}
    for number, formula in enumerate(
        (
            lambda p, x: p * x.nan_to_num(),
            lambda p, x: p * torch.where(x.isnan(), 0.0, x),
            lambda p, x: p * x[1:],
        )
    ):
        assert one_step(tmp_path / str(number), formula, [NAN, 1.0]).hits == []


def test_a_batch_that_was_made_harmless_is_not_the_origin_of_something_else(
    tmp_path: Path,
) -> None:
    found = one_step(tmp_path, lambda p, x: p * (x.nan_to_num() * 0).log(), [NAN, 1.0])
    assert births(found, "forward") == ["log"]
    assert found.verdict["op_type"] == "log"


def test_an_infinite_target_is_a_fault(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x, y: (p * x - y).square(), [1.0, 2.0], [3.0, INF])
    assert found.verdict["entered"] == {"kind": "batch", "name": "input1"}


def test_views_hand_on_what_came_from_outside(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: x.view(2, 2).t()[0].unsqueeze(0) + p, [NAN, 1, 2, 3])
    assert entered(found) == [("batch input0", "add")]


def test_numbers_of_python_are_like_a_batch(tmp_path: Path) -> None:
    found = one_step(tmp_path, lambda p, x: p * x * torch.tensor([NAN, 1.0]), [1.0, 2.0])
    assert found.verdict["entered"]["kind"] == "batch"
    assert found.verdict["op_type"] == "mul"


def test_a_parameter_that_is_bad(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight[0, 0] = NAN
    found = one_step(tmp_path, model.forward, [[1.0, 2.0]], model=model)
    assert found.verdict["entered"] == {"kind": "parameter", "name": "weight"}
    assert "WO" in found.conditions


def test_a_buffer_that_turns_bad(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log", save_state="none") as found:
        model = Formula(lambda p, x: p * x + model.shift)
        model.register_buffer("shift", torch.zeros(1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            if step == 2:
                model.shift.fill_(INF)
            optimizer.zero_grad()
            model(torch.ones(2)).sum().backward()
            optimizer.step()
    assert {hit.step for hit in found.hits} == {2}


def test_a_value_that_was_spoilt_without_an_operator(tmp_path: Path) -> None:
    def formula(p: Tensor, x: Tensor) -> Tensor:
        y = x * 1
        y.numpy()[0] = NAN
        return p * y

    found = one_step(tmp_path, formula, [1.0, 2.0])
    assert found.verdict["op_type"] == "mul"
    assert "LN" in found.conditions


# --------------------------------------------------------------------------------------- by hand


def node(number: int, op: str, *sources: Any, outputs: int = 1) -> Node:
    from opscope.events import Output

    made = Node(
        number,
        TRAINING_GRAPH,
        f"Default/{op}-op{number}",
        op.split(".")[1],
        op,
        "Default",
        "",
        Phase.FORWARD,
        Stack(0, ()),
    )
    made.outputs = [Output(made, slot) for slot in range(outputs)]
    made.sources[:] = list(sources)
    return made


def rows(*values: tuple[int, int, int, list[float]]) -> np.ndarray:
    """Records of (side, node and call, slot, numbers)."""
    made = b"".join(
        bytes(record_of(row_of(np.array(numbers)), side, 0, slot, 0, number, number, 0))
        for side, number, slot, numbers in values
    )
    return np.frombuffer(made, ROW_DTYPE)


def test_what_another_rank_sends() -> None:
    nodes = [node(0, "c10d.allreduce_.default"), node(1, "aten.add.Tensor")]
    nodes[1].sources[:] = [nodes[0].outputs[0]]
    soundness = Soundness()
    found = soundness.follow(
        rows((OUTPUT, 0, 0, [NAN, 1.0]), (OUTPUT, 1, 0, [NAN, 2.0])), Calls(nodes)
    )
    assert [(birth.node.id, birth.entered) for birth in found] == [(0, FROM_RANKS)]
    assert soundness.status == {(0, 0): BadCause.FAULT, (1, 0): BadCause.FAULT}


def test_a_collective_hands_on_what_this_rank_gave() -> None:
    nodes = [node(0, "aten.log.default"), node(1, "c10d.allreduce_.default")]
    nodes[1].sources[:] = [nodes[0].outputs[0]]
    found = Soundness().follow(rows((OUTPUT, 0, 0, [-INF]), (OUTPUT, 1, 0, [-INF])), Calls(nodes))
    assert [birth.node.id for birth in found] == [0]


def test_what_is_overwritten_is_not_read() -> None:
    weight = Outside("parameter", "unnamed.0", "unnamed.0")
    reads = rows((INPUT, 0, 0, [NAN]), (OUTPUT, 0, 0, [0.5]))
    for op in ("aten.uniform_.default", "aten.copy_.default", "aten.zero_.default"):
        assert Soundness().follow(reads, Calls([node(0, op, weight)])) == []
    (birth,) = Soundness().follow(reads, Calls([node(0, "aten.clamp_.default", weight)]))
    assert birth.entered == weight


def test_rows_in_pieces_are_the_same_as_at_once() -> None:
    batch = Outside("batch", "input0")
    nodes = [node(0, "aten.mul.Tensor", batch), node(1, "aten.sum.default")]
    nodes[1].sources[:] = [nodes[0].outputs[0]]
    soundness = Soundness()
    all_rows = rows((INPUT, 0, 0, [NAN]), (OUTPUT, 0, 0, [NAN]), (OUTPUT, 1, 0, [NAN]))
    (born,) = soundness.follow(all_rows[:2], Calls(nodes))
    assert soundness.arrive([]) == [], "it has not got anywhere yet"
    assert soundness.follow(all_rows[2:], Calls(nodes)) == []
    (birth,) = soundness.arrive([1])
    assert birth == born
    assert (birth.node.id, birth.entered) == (0, batch)
    assert soundness.arrive([1]) == [], "once is enough"
    assert soundness.arrived == [birth]
    assert len(soundness.records()) == 3
    soundness.begin()
    assert not soundness.births and not soundness.status and not soundness.arrived


def test_what_was_reached_is_told_in_the_order_it_was_written() -> None:
    """Not in that of Python's hashes, which differ from run to run."""
    names = [f"weight{number}" for number in range(12)]
    parameters = [Outside("parameter", name, name) for name in names]
    nodes = [node(at, "aten.add_.Tensor", source) for at, source in enumerate(parameters)]
    found = arrival.bad_lasting_values(Calls(nodes), {at: [0] for at in range(len(nodes))})
    assert [what.name for what in found] == names
    assert list(found.values()) == [(at, 0) for at in range(len(nodes))]
