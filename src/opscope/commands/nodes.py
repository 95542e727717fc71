"""List the operators of a run or dump: the tree of the model, or those that match a text.

TEXT is a part of a name or a scope, an operator, a parameter, or a line such as `model.py:42`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opscope.commands.numbers import number
from opscope.commands.output import add_json_flag, print_json, print_line
from opscope.commands.parsing import count
from opscope.commands.tables import fitted, print_table
from opscope.errors import OpscopeError
from opscope.events import Phase
from opscope.messages import say
from opscope.read.hit_rows import near
from opscope.wording import typed

if TYPE_CHECKING:
    from opscope.views.rank_view import RankView

_COLUMNS = ("id", "name", "phase", "line", "min", "max", "nan", "inf", "hits")
_FIRST = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope nodes`."""
    parser.add_argument("run", metavar="RUN", help='a path, a name, the start of one, or "last"')
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="what to search for")
    parser.add_argument("--phase", choices=[str(phase) for phase in Phase], help="only this phase")
    parser.add_argument("--rank", type=int, help="default: the first rank")
    parser.add_argument("--step", type=count, help="the numbers of this step (default: the last)")
    parser.add_argument(
        "--first",
        type=count,
        default=_FIRST,
        metavar="N",
        help=f"at most N operators (default {_FIRST}; 0 = all)",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the operators."""
    from opscope.read.reader import open_reader
    from opscope.views.rank_view import RankView
    from opscope.views.tree import node_list

    reader = open_reader(args.run)
    rank = next(iter(reader.ranks), 0) if args.rank is None else args.rank
    view = RankView(reader, rank)
    count = args.first if args.first and not args.json else max(1, len(view.nodes))
    step = view.last_step if args.step is None else args.step
    found = node_list(view, args.text, step=step, phase=args.phase or "", count=count)
    if args.json:
        print_json(found)
    elif not found["total"]:
        raise OpscopeError(_nothing(args))
    elif args.text:
        _print_list(found["nodes"], found["total"])
    else:
        _print_tree(view, args.phase, count)
    return 0


def _nothing(args: argparse.Namespace) -> str:
    if not args.phase and not args.text:
        return f"no operator of {args.run} is recorded"
    of_phase = f" of phase {args.phase}" if args.phase else ""
    matching = f" matches {args.text}" if args.text else " is there"
    return f"no operator{of_phase}{matching}; list them with: {typed('nodes', args.run)}"


def _print_list(nodes: Sequence[Mapping[str, Any]], total: int) -> None:
    rows = [
        [
            *(node[name] for name in ("id", "name", "phase")),
            near(node["where"]) or None,
            *(node[name] for name in ("min", "max", "nan", "inf", "hits")),
        ]
        for node in nodes
    ]
    print_table(_COLUMNS, rows, spare=("hits", "inf", "nan", "phase"))
    if len(nodes) < total:
        say(f"and {total - len(nodes):,} more; --first 0 lists all")


def _print_tree(view: RankView, phase: str | None, most: int) -> None:
    """Print scopes with their operators under them, of the forward pass unless asked."""
    wanted = phase or str(Phase.FORWARD)
    numbers = view.numbers(view.last_step)
    shown: list[str] = []
    printed, left = 0, 0
    for node in view.nodes.values():
        if str(node.phase) != wanted:
            continue
        if printed >= most:
            left += 1
            continue
        parts = node.scope.split("/")
        common = _common(shown, parts)
        for depth in range(common, len(parts)):
            print_line(f"{'  ' * depth}{parts[depth]}")
        shown = parts
        where = node.stack.where
        low, high, nan, inf = (None, None, 0, 0) if numbers is None else numbers.of(node.id)
        values = "" if low is None or high is None else f"{number(low)} … {number(high)}"
        bad = f"  {nan + inf} NaN or Inf" if nan or inf else ""
        place = near(f"{where.file}:{where.line}") if where else ""
        label = node.name.rpartition("/")[2]
        line = f"{'  ' * len(parts)}{label}  {place}  {values}{bad}".rstrip()
        print_line(fitted(line, least=0))
        printed += 1
    if left:
        say(f"and {left:,} more; --first 0 lists all")
    if phase is None:
        _say_others(view)


def _say_others(view: RankView) -> None:
    others = Counter(str(node.phase) for node in view.nodes.values())
    del others[str(Phase.FORWARD)]
    if others:
        listed = ", ".join(f"{count} of {phase}" for phase, count in others.items())
        say(f"these are the operators of forward; --phase lists others: {listed}")


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the parts that two scopes begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
