"""Control a training that is connected to a server.

  opscope ctl RUN status                  where it stands
  opscope ctl RUN current                 the node it holds at, with its values
  opscope ctl RUN pause | continue | terminate
  opscope ctl RUN step [N]                run N steps, then hold
  opscope ctl RUN next                    run one operator, then hold
  opscope ctl RUN to NODE                 run until a node has run
  opscope ctl RUN watch [recommended | none | SPEC | add SPEC | remove ID]
  opscope ctl RUN recheck [SPEC]          check watchpoints on this step again
  opscope ctl RUN keep [NODE ... | all | none]   keep values; p:NAME a parameter
  opscope ctl RUN value NODE[:slot] [INDEX]      elements of a kept value
  opscope ctl RUN parameter NAME [INDEX]         elements of a parameter now

RUN is the name of a run, the start of one, or "last". With --previous, values are those of the step
before; with --save FILE, the whole value is written to a .npy file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from opscope.atomic_files import write_whole
from opscope.commands.live_words import (
    PARAMETER_MARK,
    add_target_arguments,
    keep_order,
    print_current,
    print_fields,
    print_recheck,
    print_value,
    standing,
    value_order,
    watch_order,
    whole,
)
from opscope.commands.output import print_json, print_line
from opscope.commands.server_client import ServerClient, server_for
from opscope.errors import OpscopeError
from opscope.messages import say

_GOING = ("pause", "continue", "terminate", "next")
_LOOKING = ("current", "value", "parameter")
VERBS = ("status", *_GOING, "step", "to", "watch", "recheck", "keep", *_LOOKING)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope ctl`."""
    add_target_arguments(parser)
    parser.add_argument("what", metavar="VERB", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument("words", metavar="ARGUMENT", nargs="*", default=[], help="of the verb")
    parser.add_argument("--previous", action="store_true", help="the value of the step before")
    parser.add_argument("--save", metavar="FILE", help="write the whole value to a .npy file")


def run(args: argparse.Namespace) -> int:
    """Ask the server, and print its answer."""
    with ServerClient(server_for(args.server, args.run)) as client:
        number = client.find_run(args.run)
        answer = _ask(client, f"/runs/{number}", args)
    if args.json:
        print_json(answer)
    else:
        _print(args.what, answer)
    return 0


def _ask(client: ServerClient, run: str, args: argparse.Namespace) -> Any:
    what, words = args.what, args.words
    if what == "status":
        return client.get(f"{run}/live")
    if what in _LOOKING:
        return _look(client, run, args)
    if what == "watch":
        place = f"{run}/watchpoints"
        return client.post(place, watch_order(words)) if words else client.get(place)
    if what == "recheck":
        return client.post(f"{run}/recheck", {"watch": " ".join(words)} if words else {})
    if what == "keep":
        return client.post(f"{run}/keep", keep_order(words))
    order: dict[str, Any] = {"verb": what}
    if what == "step":
        order["count"] = whole(" ".join(words) or "1")
    if what == "to":
        order["node"] = " ".join(words)
    return client.post(f"{run}/control", order)


def _look(client: ServerClient, run: str, args: argparse.Namespace) -> Any:
    rank = {} if args.rank is None else {"rank": args.rank}
    if args.what == "current":
        return client.get(f"{run}/current", **rank)
    words = list(args.words)
    if not words:
        raise OpscopeError(f"name a {'node' if args.what == 'value' else 'parameter'}")
    if args.what == "parameter":
        words[0] = f"{PARAMETER_MARK}{words[0].removeprefix(PARAMETER_MARK)}"
    order = value_order(words, args.previous)
    if args.save is None:
        return client.post(f"{run}/value", order, **rank)
    content = client.fetch(f"{run}/value.npy", order, **rank)
    write_whole(Path(args.save), content)
    return {"file": args.save, "bytes": len(content)}


def _print(what: str, answer: Any) -> None:
    if what == "watch":
        print_fields(answer)
        if not answer:
            say("no watchpoints are set")
    elif what == "keep":
        print_fields([answer])
    elif what == "recheck":
        print_recheck(answer)
    elif what == "current":
        print_current(answer)
    elif what in _LOOKING:
        print_value(answer)
    else:
        for line in standing(answer):
            print_line(line)
        if not answer["ranks"]:
            say("no training of this run is connected")
