"""Finds values that grew step by step before they overflowed: since when, how fast, where first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node, Phase
from opscope.judge.origin.operators import is_transparent
from opscope.stats.record import OUTPUT, joined

Records = NDArray[np.void]
_STEPS = 3
"""Over fewer steps nothing can be said to grow step by step."""
_FAST, _STEPS_IF_FAST = 100.0, 2
"""Fewer are enough if it grows as much as this in each: there will be no more of them."""
_GROWTH = 100.0
"""By less than this, over all steps, nothing has diverged."""
_PER_STEP = 1.5


class Growth(NamedTuple):
    """The growth of a value: from its smallest to the last, in so many steps."""

    since: int
    steps: int
    before: float
    after: float

    @property
    def factor(self) -> float:
        """By how much in each step."""
        return float((self.after / self.before) ** (1 / self.steps))


def growth_of(steps: NDArray[np.int64], sizes: NDArray[np.float64]) -> Growth | None:
    """Return how a series has grown up to its end, if it has step by step.

    >>> round(growth_of(np.array([0, 1, 2, 3]), np.array([1.0, 10.0, 100.0, 1e3])).factor, 6)
    10.0
    """
    known = np.isfinite(sizes) & (sizes > 0)
    steps, sizes = steps[known], sizes[known]
    if len(sizes) <= _STEPS_IF_FAST:
        return None
    rising = np.diff(sizes) > 0
    falls = np.flatnonzero(~rising)
    start = int(falls[-1]) + 1 if len(falls) else 0
    ratios = sizes[start + 1 :] / sizes[start:-1]
    if len(ratios) < (_STEPS_IF_FAST if (ratios > _FAST).all() else _STEPS):
        return None
    if np.median(ratios) <= _PER_STEP:  # one jump is not step by step
        return None
    found = Growth(
        int(steps[start]), int(steps[-1] - steps[start]), float(sizes[start]), float(sizes[-1])
    )
    return found if found.after > _GROWTH * found.before and found.factor > _PER_STEP else None


def divergence(
    earlier: Records, now: Records, node_of: Any, losses: set[int]
) -> dict[str, Any] | None:
    """Return how losses, or what led to them, grew; `losses` are the nodes that compute them."""
    rows = joined([earlier, now])
    rows = rows[(rows["io"] == OUTPUT) & (rows["slot"] == 0) & (rows["kind"] == 0)]
    rows = rows[(rows["count"] > 0) & (rows["nan"] + rows["posinf"] + rows["neginf"] == 0)]
    found: list[tuple[int, Node, Growth]] = []
    for number in np.unique(rows["node"]).tolist():
        node = node_of(number)
        if node.phase is not Phase.FORWARD or is_transparent(node):
            continue
        of_node = rows[rows["node"] == number]
        order = np.argsort(of_node["step"], kind="stable")
        of_node = of_node[order]
        sizes = np.maximum(np.abs(of_node["min"]), np.abs(of_node["max"]))
        last = np.flatnonzero(np.diff(of_node["step"].astype(np.int64), append=-1))
        grown = growth_of(of_node["step"][last].astype(np.int64), sizes[last])
        if grown is not None:
            found.append((int(of_node["call"][-1]), node, grown))
    if not found:
        return None
    loss = next((grown for _, node, grown in found if node.id in losses), None)
    _, first, own = min(found, key=lambda each: each[0])
    grown = loss or own
    return {
        "what": "the loss" if loss is not None else first.name,
        "since": grown.since,
        "factor": grown.factor,
        "from": grown.before,
        "to": grown.after,
        "first": first.name,
    }


def in_words(found: dict[str, Any]) -> str:
    """Say it in a sentence."""
    return (
        f"training diverges: since step {found['since']} {found['what']} has grown "
        f"{found['factor']:.3g}-fold in every step, from {found['from']:.4g} to {found['to']:.4g}; "
        f"the first value that grows is {found['first']}"
    )


ADVICE = (
    "the learning rate or the initialisation is the suspect, not this operator: lower the rate or "
    "warm it up, clip gradients (torch.nn.utils.clip_grad_norm_), or begin with smaller weights"
)
