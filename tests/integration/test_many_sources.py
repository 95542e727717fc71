"""A node whose inputs come from more places than are kept as variants loses none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.forked import forked_opscope
from opscope.calls import MOST_VARIANTS
from opscope.events import Output
from opscope.read.run import open_run

SCRIPT = """
import torch
from torch import nn

PLACES = 200
source = "def made(x):\\n    return [\\n" + "".join(
    f"        x.{'log' if n == 150 else 'sinh'}(),\\n" for n in range(PLACES)
) + "    ]\\n"
open("places.py", "w").write(source)
import places

def taken(x):
    return x.tanh()

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    hidden = model(torch.randn(2, 4)).sigmoid() - (1 if step == 2 else 0)
    many = places.made(hidden)
    loss = sum(taken(many[(n + 7 * step) % PLACES]).sum() for n in range(PLACES))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(
    scope="module",
    params=["1", pytest.param("0", marks=pytest.mark.long)],
    ids=["native", "python"],
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    (folder / "train.py").write_text(SCRIPT)
    words = ("run", "--run-dir", "one", "train.py")
    done = forked_opscope(*words, cwd=folder, OPSCOPE_NATIVE=request.param)
    assert "origin: places.py:153" in done.stderr, done.stderr
    return folder / "one"


def edges_of(rank: Any, step: int, op_type: str) -> list[tuple[str, str, int]]:
    """Of each call of an operator: its node, the node its input came from, and its line."""
    calls = rank.steps[step].calls
    found = []
    for call, node in enumerate(calls.nodes):
        if node.op_type == op_type:
            (source,) = calls.sources_of(call)
            assert isinstance(source, Output)
            producer = calls.producer(call, 0)
            assert producer is not None and calls.nodes[producer] is source.node
            found.append((node.name, source.node.name, source.node.stack.frames[0].line))
    return found


def test_every_call_knows_where_its_input_came_from(recorded: Path) -> None:
    rank = open_run(recorded).rank(0)
    variants = [len(node.variants) for node in rank.nodes.values()]
    assert max(variants) == MOST_VARIANTS
    for step in range(2):
        lines = [line for _, _, line in edges_of(rank, step, "tanh")]
        assert lines == [3 + (n + 7 * step) % 200 for n in range(200)]


def test_the_verdict_walks_back_from_such_a_call(recorded: Path) -> None:
    """Offline too: the training itself said so above."""
    done = forked_opscope("check", recorded, cwd=recorded.parent)
    assert "places.py:153" in done.stdout, done.stdout
