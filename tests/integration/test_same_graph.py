"""The same program gives the same graph: by any capture, recorded from any step on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from helpers.examples import one_in
from helpers.models import MODELS, Trained
from helpers.recorder import Recorder, recording
from opscope.capture import hook
from opscope.events import TRAINING_GRAPH, Node, Output, Source, StepRecord, Want

LATER, LAST = 2, 4
"""A step to begin with, and the last step of every model."""
Place = tuple[object, ...]
"""What a node is, without the number in its name: that is given in the order of first sight."""
Graph = dict[Place, list[Place]]


class Edges(Recorder):
    """Keeps the graph of each step: where the inputs of each node come from."""

    def __init__(self) -> None:
        super().__init__(Want.OUTPUT_STATS | Want.OUTSIDE_STATS)
        self.graphs: dict[int, Graph] = {}

    def step_end(self, record: StepRecord) -> None:
        order = record.orders.get(TRAINING_GRAPH, [])
        places = numbered(order)
        self.graphs[record.step] = {
            places[node]: [described(source, places) for source in node.sources] for node in order
        }


def numbered(order: list[Node]) -> dict[Node, Place]:
    """The place of each node, numbered among its like in the order they ran."""
    counts: Counter[Place] = Counter()
    places = {}
    for node in order:
        where = node.stack.where
        line = (where.file, where.line) if where is not None else ()
        place = (node.phase.value, node.scope, node.op_type.removesuffix("_"), line)
        places[node] = (*place, counts[place])
        counts[place] += 1
    return places


def described(source: Source, places: dict[Node, Place]) -> Place:
    if isinstance(source, Output):
        return (*places.get(source.node, (source.node.phase.value,)), source.slot)
    return tuple(source)


def graphs(train: Callable[[], Trained], start: int) -> dict[int, Graph]:
    """The graphs of a training by step, recorded from a step on."""
    with recording(Edges(), lambda step: step >= start) as seen:
        train()
    return seen.graphs


def saved(graph: Graph) -> Counter[Place]:
    """What each backward operator reads of the forward pass and of parameters."""
    return Counter(
        (place[:4], tuple(source for source in sources if is_of_forward(source)))
        for place, sources in graph.items()
        if place[0] == "backward" and any(map(is_of_forward, sources))
    )


def is_of_forward(source: Place) -> bool:
    return source[0] in ("forward", "parameter", "buffer")


@pytest.fixture(params=["native", pytest.param("python", marks=pytest.mark.long)])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the native hook, and by the mode that stands in for it."""
    if request.param == "python":
        monkeypatch.setattr(hook, "load", lambda: None)


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize("train", MODELS, ids=lambda train: train.__name__)
def test_recorded_from_any_step_on(train: Callable[[], Trained]) -> None:
    from_start, from_later = graphs(train, 0), graphs(train, LATER)
    for step in range(LATER, LAST + 1):
        assert from_later[step] == from_start[step]


FORCED = {
    "checkpointed": "under a mode, what is computed again does not stop early",
    "gnn": "under a mode, the gradient of an index is put by another operator",
    "masked_attention": "under a mode, reshape is another operator",
}
COMPARED = [train for train in MODELS if train.__name__ not in FORCED]


@pytest.mark.parametrize("train", COMPARED, ids=lambda train: train.__name__)
def test_by_either_capture(train: Callable[[], Trained], monkeypatch: pytest.MonkeyPatch) -> None:
    native = graphs(train, 0)
    monkeypatch.setattr(hook, "load", lambda: None)
    in_python = graphs(train, 0)
    for step in range(LAST + 1):
        assert saved(native[step]) == saved(in_python[step])


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "_softmax": lambda x: torch.softmax(x, -1),
    "_log_softmax": lambda x: torch.log_softmax(x, -1),
    "exp": torch.exp,
    "relu_": lambda x: torch.relu_(x * 2),
}


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize("start", [0, LATER])
@pytest.mark.parametrize("op_type", one_in(2, ACTIVATIONS))
def test_an_output_that_backward_saved_is_known_in_the_first_step(op_type: str, start: int) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(Recorder(), lambda step: step >= start) as seen:
        for _ in range(start + 2):
            optimizer.zero_grad()
            ACTIVATIONS[op_type](model(torch.ones(3, 2))).square().sum().backward()
            optimizer.step()
    made = seen.one(op_type, start).node
    for step in (start, start + 1):
        (reads,) = (call for call in seen.calls if call.node.forward is made and call.step == step)
        assert any(isinstance(s, Output) and s.node is made for s in reads.sources.values())
