"""Changes of a set of watchpoints, as plain data: what the API and the terminal ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.errors import OpscopeError
from opscope.judge.watch_set import WatchSet, from_json, load

ACTIONS = ("set", "add", "change", "remove")


def change_set(watch: WatchSet, order: Mapping[str, Any]) -> None:
    """Add, change or remove watchpoints, or take another set; wrong orders change nothing."""
    action = str(order.get("action", "set"))
    if action not in ACTIONS:
        raise OpscopeError(f"{action} is no action; there are set, add, change and remove")
    if action == "change":
        parts = order.get("parts", {})
        if not isinstance(parts, Mapping):
            raise OpscopeError("parts must be an object")
        watch.change(_number(order), **parts)
    elif action == "remove":
        watch.remove(_number(order))
    else:
        new = watch_of(order.get("watch", "recommended" if action == "set" else ""))
        for watchpoint in list(watch) if action == "set" else ():
            watch.remove(watchpoint.id)
        for watchpoint in new:
            watch.add(watchpoint)


def watch_of(what: Any) -> WatchSet:
    """The watchpoints that a specification, or the data of a file, means."""
    return load(what) if isinstance(what, str) else from_json(what, "watchpoints")


def _number(order: Mapping[str, Any]) -> int:
    number = order.get("id")
    if isinstance(number, bool) or not isinstance(number, int):
        raise OpscopeError("id must be a whole number")
    return number
