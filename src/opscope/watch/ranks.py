"""Meetings of the ranks at the end of a step: stop if one stops, compare their parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.judge.history import digests
from opscope.watch.agreement import Agreement

Digests = Mapping[str, str]
"""Parameter → a digest of its statistics."""


class Decision(NamedTuple):
    """The outcome of a meeting of the ranks."""

    stopping: int | None = None
    """The first rank that wants to end training."""
    differing: tuple[int, Sequence[Digests]] | None = None
    """A step in which parameters differ, and what each rank has of them."""
    attended: bool = False
    """True if somebody looks at any rank who can answer."""


class Ranks:
    """This rank among the others."""

    def __init__(self) -> None:
        self.agreement = Agreement()
        self.is_replicated: Callable[[], bool] = lambda: False
        """Tells whether parameters are the same on every rank, as in DDP."""
        self.digests: dict[int, dict[str, str]] = {}
        """By step: what has not been compared yet."""

    @property
    def are_compared(self) -> bool:
        """True if the ranks compare their parameters."""
        return self.is_replicated() and self.agreement.possible

    def note(self, step: int, names: Sequence[str], rows: NDArray[np.void]) -> None:
        """Note the rows of some parameters in a step, to be compared."""
        self.digests[step] = digests(names, rows)

    def meet(self, stops: bool, attended: bool = False) -> Decision:
        """Come to an agreement with the other ranks."""
        own = {str(n): _together(d) for n, d in self.digests.items()}
        everyone = self.agreement.meet({"stop": stops, "looks": attended, "digests": own})
        if len(everyone) < 2:
            return Decision()
        ending = [rank for rank, message in enumerate(everyone) if message["stop"]]
        looks = any(message["looks"] for message in everyone)
        return Decision(ending[0] if ending else None, self._compare(everyone), looks)

    def leave(self) -> None:
        """Leave: this rank has finished."""
        self.agreement.leave()

    def _compare(self, everyone: Sequence[dict[str, Any]]) -> tuple[int, list[Digests]] | None:
        common = set.intersection(*(set(message["digests"]) for message in everyone))
        differing = [
            step for step in common if len({message["digests"][step] for message in everyone}) > 1
        ]
        found = None
        if differing:
            first = int(min(differing, key=int))
            details = self.agreement.meet({"parameters": self.digests.get(first, {})})
            if len(details) == len(everyone):
                found = first, [d["parameters"] for d in details]
        for step in common:
            self.digests.pop(int(step), None)
        return found


def _together(digests: Digests) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]
