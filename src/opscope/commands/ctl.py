"""Control a training that is connected to a server.

  opscope ctl RUN status                  where it stands
  opscope ctl RUN pause | continue | terminate
  opscope ctl RUN step [N]                run N steps, then hold
  opscope ctl RUN next                    run one operator, then hold
  opscope ctl RUN to NODE                 run until a node has run
  opscope ctl RUN watch [recommended | none | SPEC | add SPEC | remove ID]
  opscope ctl RUN recheck [SPEC]          check watchpoints on the current step again
  opscope ctl RUN keep [NODE ...]         keep the values of these nodes, by name, scope or glob
  opscope ctl RUN value NODE[:slot] [INDEX]   elements of a kept value
  opscope ctl RUN parameter NAME [INDEX]      elements of a parameter as it is now

RUN is the name of a run, the start of one, or "last".
"""

from __future__ import annotations

import argparse
from typing import Any

from opscope.commands.output import add_json_flag, hit_row, print_hits, print_json, print_line
from opscope.commands.server_client import ServerClient, server_for
from opscope.errors import OpscopeError
from opscope.messages import say

_GOING = ("pause", "continue", "terminate", "next")
VERBS = ("status", *_GOING, "step", "to", "watch", "recheck", "keep", "value", "parameter")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opscope ctl`."""
    parser.add_argument("run", metavar="RUN", help='the name of a run, the start of one, or "last"')
    parser.add_argument("what", metavar="VERB", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument("words", metavar="ARGUMENT", nargs="*", help="of the verb")
    parser.add_argument("--rank", type=int, help="the rank to look into (default: the first)")
    parser.add_argument(
        "--server", metavar="HOST:PORT", help="(default: the run's own, or 127.0.0.1:8080)"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the server, and print its answer."""
    with ServerClient(server_for(args.server, args.run)) as client:
        number = client.find_run(args.run)
        answer = _ask(client, number, args)
    if args.json:
        print_json(answer)
    else:
        _print(args.what, answer)
    return 0


def _ask(client: ServerClient, run: str, args: argparse.Namespace) -> Any:
    what, words = args.what, args.words
    if what == "status":
        return client.get(f"/runs/{run}/live")
    if what in _GOING:
        return client.post(f"/runs/{run}/control", {"verb": what})
    if what == "step":
        return client.post(f"/runs/{run}/control", {"verb": what, "count": _count(words)})
    if what == "to":
        return client.post(f"/runs/{run}/control", {"verb": what, "node": _one(words, "a node")})
    if what == "watch":
        return _watch(client, run, words)
    if what == "recheck":
        query = {"watch": " ".join(words)} if words else {}
        return client.post(f"/runs/{run}/recheck", query)
    if what == "keep":
        return client.post(f"/runs/{run}/keep", {"nodes": words})
    order: dict[str, Any] = {"part": "slice" if words[1:] else "facts"}
    if words[1:]:
        order["index"] = words[1]
    if what == "parameter":
        order["parameter"] = _one(words[:1], "a parameter")
    else:
        node, _, slot = _one(words[:1], "a node").partition(":")
        side, _, number = slot.rpartition(":")
        order |= {"node": node, "io": side or "output", "slot": int(number or 0)}
    rank = {} if args.rank is None else {"rank": args.rank}
    return client.post(f"/runs/{run}/value", order, **rank)


def _watch(client: ServerClient, run: str, words: list[str]) -> Any:
    place = f"/runs/{run}/watchpoints"
    return client.post(place, watch_order(words)) if words else client.get(place)


def watch_order(words: list[str]) -> dict[str, Any]:
    """What words say about watchpoints: a set of them, `add SPEC` or `remove ID`."""
    if words[0] == "add":
        return {"action": "add", "watch": " ".join(words[1:])}
    if words[0] == "remove":
        return {"action": "remove", "id": _count(words[1:])}
    return {"action": "set", "watch": " ".join(words)}


def standing(live: Any) -> list[str]:
    """Where each rank stands, a line each."""
    lines = []
    for rank in live["ranks"]:
        node = f" at {rank['node']['name']}" if rank["node"] else ""
        why = f" ({rank['reason']})" if rank["reason"] and not node else ""
        lines.append(f"rank {rank['rank']}: {rank['state']}, step {rank['step']}{node}{why}")
    return lines


def _count(words: list[str]) -> int:
    if not words:
        return 1
    if len(words) > 1 or not words[0].isdigit():
        raise OpscopeError(f"{' '.join(words)}: must be a whole number")
    return int(words[0])


def _one(words: list[str], what: str) -> str:
    if len(words) != 1 or not words[0]:
        raise OpscopeError(f"name {what}")
    return words[0]


def _print(what: str, answer: Any) -> None:
    if what in ("watch", "keep"):
        for each in answer if isinstance(answer, list) else [answer]:
            print_line(" ".join(f"{name}={value}" for name, value in each.items()))
        if not answer:
            say("no watchpoints are set")
    elif what == "recheck":
        if answer["hits"]:
            print_hits([hit_row(hit) for hit in answer["hits"]], 100)
        looked = f"step {answer['step']}: {answer['values']} values checked"
        say(f"{looked}, {len(answer['unchecked'])} kinds of checks not possible")
    elif what in ("value", "parameter"):
        for name, value in answer.items():
            print_line(f"{name:10} {value}")
    else:
        for line in standing(answer):
            print_line(line)
        if not answer["ranks"]:
            say("no training of this run is connected")
