"""Find the node that a person means, and the slot of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from opscope.errors import OpscopeError
from opscope.escapes import escaped
from opscope.events import IO, TRAINING_GRAPH, Node, Phase
from opscope.names import ROOT, ends_with, last_part, last_parts
from opscope.wording import typed

_SHOWN = 20
_CLOSE = 0.65
"""So alike a name must be to be what was meant; 0.5 finds `sin-op0` for `nope`."""
_ADDRESS = re.compile(
    r"(?P<node>.+?)(?::(?:(?P<io>input|output):)?(?P<slot>\d+))?(?:@(?P<pass>\d{1,9}))?"
)


class Address(NamedTuple):
    """A node as a person writes it: `NODE`, `NODE:slot` (of an output) or `NODE:input:slot`.

    Behind it may stand `@PASS`, of a step that has several.
    """

    node: str
    io: IO = IO.OUTPUT
    slot: int | None = None
    pass_number: int | None = None


def parse_address(text: str) -> Address:
    """Take `NODE[:slot]` apart.

    >>> parse_address("conv1-Conv2d/convolution-op0:input:1").slot
    1
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise OpscopeError("the name of the node is empty")
    slot = match["slot"]
    of_pass = match["pass"]
    return Address(
        match["node"],
        IO(match["io"] or "output"),
        int(slot) if slot else None,
        int(of_pass) if of_pass else None,
    )


def find_node(nodes: Collection[Node], text: str) -> Node:
    """The node with this id or name, or the only one whose name ends with or contains it."""
    for matches in _tiers(nodes, text):
        training = [node for node in matches if node.graph == TRAINING_GRAPH]
        if len(matches) == 1 or len(training) == 1:
            return (training or matches)[0]
        if matches:
            raise OpscopeError(_ambiguous(text, matches))
    raise OpscopeError(_missing(text, nodes))


def choose_node(nodes: Collection[Node], text: str, run: str) -> tuple[Node, list[Node]]:
    """The node that a person most likely means, and the others that match.

    Of several it is one of forward, where the name of a module stands for its last operator:
    that makes what the module gives. `run` is what the person calls the run, for a hint.
    """
    for matches in (*_tiers_of_parts(nodes, text), *_tiers(nodes, text)):
        if matches:
            chosen = _most_likely(matches, text)
            return chosen, [node for node in matches if node is not chosen]
    raise OpscopeError(_missing(text, nodes, run))


def _tiers_of_parts(nodes: Collection[Node], text: str) -> Iterator[list[Node]]:
    """Exact matches, then those with a scope or an operator of that name: `conv2`, not `Conv2d`."""
    yield [node for node in nodes if text.isdigit() and node.id == int(text)]
    yield [node for node in nodes if text in (node.name, node.name.removeprefix(f"{ROOT}/"))]
    part = re.compile(f"(^|/){re.escape(text.strip('/'))}(-|/|$)")
    yield [node for node in nodes if part.search(node.name)]


def _most_likely(matches: list[Node], text: str) -> Node:
    """The first of training and forward; of its module the last one, if that is what matches."""
    training = [node for node in matches if node.graph == TRAINING_GRAPH]
    forward = [node for node in training if node.phase is Phase.FORWARD]
    found = forward or training or matches
    first = found[0]
    if text.lower() in last_part(first.name).lower():
        return first
    return [node for node in found if node.scope == first.scope][-1]


def _tiers(nodes: Collection[Node], text: str) -> Iterator[list[Node]]:
    """Matches from the strictest to the loosest."""
    low = text.lower()
    yield [node for node in nodes if text.isdigit() and node.id == int(text)]
    yield [node for node in nodes if node.name == text]
    yield [node for node in nodes if node.name == f"{ROOT}/{text}"]
    yield [node for node in nodes if ends_with(node.name, text)]
    yield [node for node in nodes if node.name.endswith(text)]
    yield [node for node in nodes if low in node.name.lower()]


def _ambiguous(text: str, matches: list[Node]) -> str:
    lines = [f"  {node.id:>6}  {escaped(node.name)}{_graph(node)}" for node in matches[:_SHOWN]]
    if len(matches) > _SHOWN:
        lines.append(f"  … and {len(matches) - _SHOWN} more")
    return "\n".join(
        [f"{text} matches {len(matches)} nodes; give a longer name or the id:", *lines]
    )


def _graph(node: Node) -> str:
    return f"  (graph {node.graph})" if node.graph != TRAINING_GRAPH else ""


def _modules(node: Node) -> list[str]:
    """The names of the modules around a node, as their attributes are called: `conv3`."""
    return [part.rpartition("-")[0] for part in node.name.split("/")[:-1] if "-" in part]


def _missing(text: str, nodes: Collection[Node], run: str = "RUN") -> str:
    names = {module: node.name for node in reversed([*nodes]) for module in _modules(node)}
    names |= {node.name: node.name for node in nodes}
    names |= {last_parts(node.name, 2): node.name for node in nodes}
    names |= {last_part(node.name): node.name for node in nodes}
    close = difflib.get_close_matches(text, names, n=3, cutoff=_CLOSE)
    every = f"list them with: {typed('nodes', run)}"
    if not close:
        return f"no node matches {text}; {every}"
    found = dict.fromkeys(f"  {escaped(names[c])}" for c in close)
    return "\n".join([f"no node matches {text}; did you mean", *found, f"or {every}"])
