"""Watchpoints of runs that no training is connected for: they are checked on what was recorded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from opscope.judge.recommended import recommended
from opscope.judge.watch_orders import change_set
from opscope.judge.watch_set import WatchSet

_MOST_RUNS = 100
"""Runs whose watchpoints are kept; those changed longest ago are let go."""


class WatchDesk:
    """A set of watchpoints for each run, the recommended ones at first; any thread may ask."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, WatchSet] = OrderedDict()
        self._lock = threading.Lock()

    def watchpoints(self, run: str) -> list[dict[str, Any]]:
        """The watchpoints of a run."""
        with self._lock:
            watch = self._sets.get(run)
            watch = WatchSet(recommended()) if watch is None else watch
            return [watchpoint.to_json() for watchpoint in watch]

    def change(self, run: str, order: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Change them, and return them."""
        with self._lock:
            watch = self._sets.get(run)
            watch = WatchSet(recommended()) if watch is None else watch
            change_set(watch, order)
            self._sets[run] = watch
            self._sets.move_to_end(run)
            while len(self._sets) > _MOST_RUNS:
                self._sets.popitem(last=False)
            return [watchpoint.to_json() for watchpoint in watch]
