"""Whole values that trainings sent, kept a moment: for files, and to compare ranks."""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.arrays import Array, Data
from opscope.errors import OpscopeError

if TYPE_CHECKING:
    from opscope.server.hub import Hub

_KEPT_BYTES = 256 << 20
"""Of arrays that are kept, so that each part of a picture does not ask for them again."""


class LiveArrays:
    """Values of connected trainings, asked for once while training stands still."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Array] = OrderedDict()

    async def get(self, hub: Hub, run: str, rank: int, live: Data) -> Array:
        """The elements of a value, by what its training calls it."""
        key = json.dumps([run, rank, live, _moment(hub, run, rank)])
        if key not in self._kept:
            content = await hub.ask(run, rank, "value", live | {"part": "npy"})
            self._keep(key, _loaded(content))
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: str, array: Array) -> None:
        self._kept[key] = array
        while len(self._kept) > 1 and sum(a.nbytes for a in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)


def _moment(hub: Hub, run: str, rank: int) -> Any:
    """Say where a training stands: a parameter as it is now is another one after that."""
    found: Data = next((each for each in hub.facts(run)["ranks"] if each["rank"] == rank), {})
    return [found.get("step"), found.get("node"), found.get("state")]


def _loaded(content: Any) -> Array:
    if not isinstance(content, bytes):
        raise OpscopeError("the training sent something that is no array")
    try:
        found: Array = np.load(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:
        raise OpscopeError(f"the training sent something that is no array: {error}") from None
    return found
