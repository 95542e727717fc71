"""Shared by `ctl` and `attach`: arguments, orders made of words, and lines to print."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from opscope.commands.output import add_json_flag, print_hits, print_line
from opscope.errors import OpscopeError
from opscope.wording import counted

PARAMETER_MARK = "p:"
_MODES = ("all", "none", "named")
_SHOWN = 200
_MOST_HITS = 100


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a training and its server."""
    parser.add_argument("run", metavar="RUN", help='the name of a run, the start of one, or "last"')
    parser.add_argument("--rank", type=int, help="the rank to look into (default: the first)")
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        help="(default: the run's own, or 127.0.0.1:8080); https://HOST:PORT if it has TLS",
    )
    add_json_flag(parser)


def value_order(words: Sequence[str], previous: bool = False) -> dict[str, Any]:
    """Read what words say of a value: NODE[:slot], NODE:input:slot or p:PARAMETER, and an index."""
    if not words or not words[0] or len(words) > 2:
        raise OpscopeError("name a node, or a parameter as p:NAME, and elements such as 0,:4")
    order: dict[str, Any] = {"part": "slice" if words[1:] else "facts"}
    if words[1:]:
        order["index"] = words[1]
    if previous:
        order["previous"] = True
    if words[0].startswith(PARAMETER_MARK):
        return order | {"parameter": words[0].removeprefix(PARAMETER_MARK)}
    node, _, slot = words[0].partition(":")
    side, _, number = slot.rpartition(":")
    return order | {"node": node, "io": side or "output", "slot": whole(number or "0")}


def watch_order(words: Sequence[str]) -> dict[str, Any]:
    """Read what words say of watchpoints: a set of them, `add SPEC` or `remove ID`."""
    if words[0] == "add":
        return {"action": "add", "watch": " ".join(words[1:])}
    if words[0] == "remove":
        return {"action": "remove", "id": whole(" ".join(words[1:]))}
    return {"action": "set", "watch": " ".join(words)}


def keep_order(words: Sequence[str]) -> dict[str, Any]:
    """Read what words say of values to keep: names, or all or none."""
    if len(words) == 1 and words[0] in _MODES:
        return {"nodes": [], "mode": words[0]}
    return {"nodes": list(words)}


def whole(text: str) -> int:
    """A whole number that was typed."""
    if not text.strip().isdigit():
        raise OpscopeError(f"{text}: must be a whole number")
    return int(text)


def standing(live: Any) -> list[str]:
    """Say where each rank stands, a line each."""
    lines = []
    for rank in live["ranks"]:
        node = rank["node"]
        at = f" at {node['name']}" if node else ""
        line = f", {node['where']}" if node and node.get("where") else ""
        why = f" ({rank['reason']})" if rank["reason"] and not node else ""
        dropped = f"; {rank['dropped']} values dropped" if rank["dropped"] else ""
        where = f"rank {rank['rank']}: {rank['state']}, step {rank['step']}"
        lines.append(f"{where}{at}{line}{why}{dropped}")
    return lines


def print_current(node: Any) -> None:
    """Print the node that training stands at."""
    print_line(f"{node['name']}  step {node['step']}, call {node['call']}, {node['phase']}")
    if node["where"]:
        print_line(f"  {node['where']}")
    for io in ("inputs", "outputs"):
        for side in node[io]:
            print_line(f"  {io[:-1]} {side['slot']}  {side['dtype']} {side['shape']}")


def print_fields(found: Sequence[Any]) -> None:
    """Objects, such as watchpoints, a line each."""
    for each in found:
        print_line(" ".join(f"{name}={value}" for name, value in each.items()))


def print_value(found: Any) -> None:
    """Elements of a value, or facts about it."""
    elements = found.get("elements")
    if elements is None:
        for name, value in found.items():
            print_line(f"{name:10} {value}")
        return
    print_line(f"shape      {found['shape']}")
    more = f" … {len(elements) - _SHOWN} more" if len(elements) > _SHOWN else ""
    print_line(f"elements   {' '.join(str(each) for each in elements[:_SHOWN])}{more}")


def print_recheck(found: Any) -> None:
    """Print what watchpoints find in a step, and what could not be checked."""
    if found["hits"]:
        print_hits(found["hits"], _MOST_HITS)
    for each in found["unchecked"]:
        example = f", such as {each['example']}" if each.get("example") else ""
        count = f" ({counted(each['count'], 'value')}{example})" if each.get("count") else ""
        print_line(f"not checked: {each['reason']}: {each['label']}{count}")
    print_line(f"step {found['step']}: {counted(found['values'], 'value')} checked")
