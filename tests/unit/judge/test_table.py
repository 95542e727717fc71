"""Which rows each watchpoint looks at."""

from __future__ import annotations

import linecache
from pathlib import Path
from unittest import mock

import numpy as np

from opscope.calls import Calls, StepSeries, note_sources
from opscope.events import EVAL_GRAPH, TRAINING_GRAPH, Frame, Node, Output, Outside, Phase, Stack
from opscope.judge.parsing import make
from opscope.judge.table import Table, is_ignored_line
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import INPUT, OUTPUT, ROW_DTYPE

W, B = Outside("parameter", "fc.weight", "fc.weight"), Outside("parameter", "fc.bias", "fc.bias")


class Nodes:
    """Nodes as capture makes them, one after another."""

    def __init__(self) -> None:
        self.made: list[Node] = []

    def add(
        self,
        op: str,
        *sources: Outside | Output,
        phase: Phase = Phase.FORWARD,
        gradient_of: str = "",
        file: str = "model.py",
        line: int = 1,
    ) -> Node:
        graph = EVAL_GRAPH if phase is Phase.EVAL else TRAINING_GRAPH
        prefix = "Gradients/" if phase is Phase.BACKWARD else ""
        number = len(self.made)
        stack = Stack(number, (Frame(file, line, "forward", True),))
        node = Node(
            number, graph, f"{prefix}Default/fc-Linear/{op}-op{number}", op, f"aten.{op}.default",
            f"{prefix}Default/fc-Linear", "Linear", phase, stack, gradient_of=gradient_of,
        )  # fmt: skip
        node.outputs = [Output(node, 0)]
        node.sources[:] = list(sources)
        self.made.append(node)
        return node

    def table(self, *watchpoints: Watchpoint, include: tuple[str, ...] = ()) -> Table:
        table = Table(self.made.__getitem__, include)
        table.watch(watchpoints)
        table.learn(len(self.made))
        return table


def rows(*places: tuple[int, int, int]) -> np.ndarray:
    """Rows of (node, side, slot), in the order they ran."""
    made = np.zeros(len(places), ROW_DTYPE)
    for call, (node, side, slot) in enumerate(places):
        made[call]["node"], made[call]["io"], made[call]["slot"] = node, side, slot
        made[call]["call"] = call
    return made


def chosen(table: Table, watchpoint: Watchpoint, count: int) -> list[int]:
    everything = rows(*((node, OUTPUT, 0) for node in range(count)))
    return table.outputs(watchpoint, everything).tolist()


def test_classes() -> None:
    nodes = Nodes()
    nodes.add("addmm", W)
    nodes.add("relu")
    nodes.add("relu_")
    nodes.add("mm", phase=Phase.BACKWARD)
    nodes.add("AccumulateGrad", phase=Phase.BACKWARD, gradient_of="fc.weight")
    nodes.add("relu", phase=Phase.EVAL)
    nodes.add("tanh")
    everything = {
        0: make("TL", 1, max_gt=0.0),
        1: make("TL", 2, max_gt=0.0, cls="activation"),
        2: make("GL", 3, max_gt=0.0),
        3: make("GL", 4, max_gt=0.0, parameter="fc.*"),
        4: make("AD", 5),
        5: make("AS", 6),
        6: make("TL", 7, max_gt=0.0, cls="weight"),
    }
    table = nodes.table(*everything.values())
    assert [chosen(table, w, 7) for w in everything.values()] == [
        [0, 1, 2, 3, 4, 6],
        [1, 2, 6],
        [3, 4],
        [4],
        [1, 2],
        [6],
        [],
    ]
    with_eval = nodes.table(*everything.values(), include=("eval",))
    assert 5 in chosen(with_eval, everything[0], 7)


def test_inputs_are_not_outputs() -> None:
    nodes = Nodes()
    nodes.add("relu")
    watchpoint = make("TL", 1, max_gt=0.0)
    found = nodes.table(watchpoint).outputs(watchpoint, rows((0, INPUT, 0), (0, OUTPUT, 0)))
    assert found.tolist() == [1]


def test_many_nodes_and_nodes_that_come_later() -> None:
    nodes = Nodes()
    watchpoint = make("TL", 1, max_gt=0.0, op_type="relu")
    table = nodes.table(watchpoint)
    for number in range(700):
        nodes.add("relu" if number % 100 == 99 else "mul")
    table.learn(300)
    table.learn(700)
    assert chosen(table, watchpoint, 700) == [99, 199, 299, 399, 499, 599, 699]
    other = make("TL", 2, max_gt=0.0, op_type="mul")
    table.watch([other])
    assert len(chosen(table, other, 700)) == 693, "also for what was known before"


def test_parameters_at_their_first_use() -> None:
    nodes = Nodes()
    nodes.add("t", W)
    nodes.add("addmm", B, W)
    nodes.add("add_", W, phase=Phase.OPTIMIZER)
    table = nodes.table()
    records = rows((1, INPUT, 1), (0, INPUT, 0), (1, INPUT, 0), (2, INPUT, 0), (1, OUTPUT, 0))
    found, numbers = table.parameter_rows(records, Calls())
    assert {table.parameters[n]: int(r) for r, n in zip(found, numbers, strict=True)} == {
        "fc.weight": 0,
        "fc.bias": 2,
    }
    assert [node.id for node in table.first_use] == [0, 1]
    assert table.number_of("fc.bias") == 1 and table.number_of("other") is None


def test_an_input_that_comes_from_elsewhere_now() -> None:
    nodes = Nodes()
    first = nodes.add("mul", W)
    table = nodes.table()
    first.sources[:] = [B]
    table.renew([first])
    _, numbers = table.parameter_rows(rows((0, INPUT, 0)), Calls())
    assert [table.parameters[n] for n in numbers] == ["fc.bias"]


def test_an_input_that_is_this_parameter_or_that_is_told_by_its_call() -> None:
    nodes = Nodes()
    loop = nodes.add("mul", W)
    table = nodes.table()
    calls = Calls([loop, loop, loop])
    note_sources(calls, 1, loop, [B])
    note_sources(calls, 2, loop, [Output(loop, 0)])
    table.renew(calls.renewed)
    found, numbers = table.parameter_rows(rows(*[(0, INPUT, 0)] * 3), calls)
    assert [table.parameters[n] for n in numbers] == ["fc.weight", "fc.bias"]
    assert found.tolist() == [0, 1]


def test_calls_are_asked_again_only_where_they_hang_together_otherwise() -> None:
    """Of thousands of parameters that a loop goes through, in each step."""
    nodes = Nodes()
    loop = nodes.add("mul", W)
    table = nodes.table()
    steps = StepSeries()
    looks_up = []
    for order in ([W, B], [W, B], [W, B], [B, W], [B, W], [B, W]):
        steps.begin_step()
        calls = steps.calls
        for call, source in enumerate(order):
            if source != loop.sources[0]:
                note_sources(calls, call, loop, [source])
            calls.nodes.append(loop)
        table.renew(calls.renewed)
        with mock.patch.object(calls, "sources_of", wraps=calls.sources_of) as asked:
            found, numbers = table.parameter_rows(rows(*[(0, INPUT, 0)] * 2), calls)
        names = [table.parameters[number] for number in numbers]
        assert dict(zip(found.tolist(), names, strict=True)) == {0: order[0].name, 1: order[1].name}
        looks_up.append(asked.call_count > 0)
    assert looks_up == [True, True, False, True, True, False]


def test_lists_of_parameters_are_looked_at_to_their_end() -> None:
    nodes = Nodes()
    nodes.add("mul", W)
    many = [Outside("parameter", f"w{number}", f"w{number}") for number in range(40)]
    nodes.add("_cudnn_rnn", *many)
    table = nodes.table()
    _, numbers = table.parameter_rows(rows((0, INPUT, 0), (1, INPUT, 39)), Calls())
    assert [table.parameters[n] for n in numbers] == ["fc.weight", "w39"]


def test_outputs_are_selected_by_the_parameter_of_their_slot() -> None:
    nodes = Nodes()
    update = nodes.add("_foreach_add_", phase=Phase.OPTIMIZER)
    update.outputs = [Output(update, 0, "a"), Output(update, 1, "b")]
    watchpoint = make("TL", 1, max_gt=0.0, parameter="b")
    found = nodes.table(watchpoint).outputs(watchpoint, rows((0, OUTPUT, 0), (0, OUTPUT, 1)))
    assert found.tolist() == [1]


def test_weights_by_name_and_muted() -> None:
    nodes = Nodes()
    nodes.add("addmm", B, W, line=3)
    found = {}
    for number, words in enumerate(
        (
            {"parameter": "*.bias"},
            {"node": "fc.weight"},
            {"mute": ["model.py:3"]},
            {"scope": "*/other-*"},
            {},
        ),
        1,
    ):
        watchpoint = make("WO", number, **words)
        table = nodes.table(watchpoint)
        chosen = table.weights(watchpoint, np.arange(2, dtype=np.int32))
        found[str(words)] = [table.parameters[n] for n in np.flatnonzero(chosen)]
    assert [*found.values()] == [["fc.bias"], ["fc.weight"], [], [], ["fc.bias", "fc.weight"]]


def test_shapes() -> None:
    nodes = Nodes()
    nodes.add("addmm", B, W)
    table = nodes.table()
    records = rows((0, INPUT, 0), (0, INPUT, 1))
    records["shape"] = [0, 1]
    kinds = [("float32", (4,)), ("float32", (4, 3))]
    table.note_shapes(np.array([0, 1], np.int32), records, kinds.__getitem__)
    assert table.has_matrix("fc.weight") and not table.has_matrix("fc.bias")


def test_lines_that_are_left_alone(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "x = y.log()  # opscope: ignore\n"
        "x = y.log()  # noqa  # opscope: ignore\n"
        "x = f('opscope: ignore')\n"
        "x = y.log()\n"
    )
    linecache.checkcache(str(script))
    nodes = Nodes()
    made = [nodes.add("log", file=str(script), line=line) for line in (1, 2, 3, 4, 99)]
    assert [is_ignored_line(node) for node in made] == [True, True, False, False, False]
    watchpoint = make("TL", 1, max_gt=0.0)
    assert chosen(nodes.table(watchpoint), watchpoint, 5) == [2, 3, 4]
