"""Finds where the script itself looked at what is bad: by `item`, a comparison, a print."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import TRAINING_GRAPH, Node, Phase
from opscope.judge.origin.birth import Birth, Place
from opscope.judge.origin.walking import BadSlots, feeding
from opscope.judge.selection import is_weight
from opscope.stats.record import FLOAT, OUTPUT

Records = NDArray[np.void]
_READS = frozenset(("_local_scalar_dense", "equal", "is_nonzero", "allclose"))
_HANDS_OUT = "detach"
"""The operator that `numpy()` calls; `tolist()` calls none."""


def readings(
    calls: Calls,
    bad: BadSlots,
    records: Records,
    births: Sequence[Birth],
    noticed: Collection[int] = (),
) -> Iterator[tuple[Birth, int]]:
    """Yield births with the calls by which the script came to know of what they made.

    It reads a bad value, or what a comparison made of one, which is no float. Of some calls this is
    known otherwise: an operator that is given a bad value has raised, or `tolist` took it.
    """
    starts = {birth.call: birth for birth in births}
    if not starts:
        return
    others = records[(records["io"] == OUTPUT) & (records["kind"] != FLOAT)]
    answers = set(zip(others["call"].tolist(), others["slot"].tolist(), strict=True))
    for call in range(min(starts), len(calls.nodes)):
        if call in noticed or _is_reading(calls, call, bad):
            for at in _behind(calls, call, bad, answers):
                if at in starts:
                    yield starts[at], call


def trains(calls: Calls) -> bool:
    """Return whether a network was called to learn from: what is after the last step only looks."""
    return any(
        node.phase is Phase.BACKWARD or (node.phase is Phase.FORWARD and _is_of_network(node))
        for node in calls.nodes
        if node.graph == TRAINING_GRAPH and node.with_grad
    )


def _is_of_network(node: Node) -> bool:
    return bool(node.module_class) or any(is_weight(source) for source in node.sources)


def is_last(calls: Calls, call: int) -> bool:
    """Return whether no other pass of the network has come after a call."""
    last = max((c for c, n in enumerate(calls.nodes) if n.graph == TRAINING_GRAPH), default=0)
    return calls.pass_of(call) == calls.pass_of(max(last, call))


def _is_reading(calls: Calls, call: int, bad: BadSlots) -> bool:
    node = calls.nodes[call]
    if node.op_type in _READS and node.phase is not Phase.EVAL:
        return True
    return node.op_type == _HANDS_OUT and node.phase is Phase.FORWARD and call in bad


def _behind(calls: Calls, call: int, bad: BadSlots, answers: set[Place]) -> set[int]:
    """The calls whose bad values, or what was asked of them, a call reads."""
    seen: set[int] = set()
    todo = [place for place in feeding(calls, call) if place is not None]
    if call in bad:
        seen.add(call)
    while todo:
        at, slot = todo.pop()
        counts = slot in bad.get(at, ()) or (at, slot) in answers
        if at in seen or not counts:
            continue
        seen.add(at)
        todo += (place for place in feeding(calls, at) if place is not None)
    return seen
