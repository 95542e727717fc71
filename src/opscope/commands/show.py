"""Show a run or dump at a glance, or one operator: its code, what went in, what came out.

Without NODE: how the run ended, loss and gradient norm, the model, what stands out, and hits.
NODE is a name, a part of one, or an id; of several that match, one of forward is shown, of a module
its last operator, and the others are listed. `NODE:1` shows output 1 alone, `NODE:input:1` input 1.

`opscope show RUN hits` shows the state of training that was saved with the first hit of NaN or Inf,
and `opscope show RUN hits/step_3` that of step 3: the batch, random states, parameters, the
optimizer, and the inputs and outputs of the operator where it began.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.commands.numbers import cell
from opscope.commands.output import add_json_flag, print_json, print_line
from opscope.commands.parsing import count
from opscope.commands.tables import fitted, print_table
from opscope.errors import OpscopeError
from opscope.events import IO, Node
from opscope.messages import say
from opscope.read.hit_rows import near
from opscope.read.nodes import Address, choose_node, parse_address
from opscope.rundir.layout import HIT_STATES
from opscope.wording import counted, typed

if TYPE_CHECKING:
    from opscope.read.hit_state import SavedTensor
    from opscope.read.recording import RankReader
    from opscope.stats.row import Row

_FACTS = ("op", "scope", "phase", "forward", "parameter", "gradient_of")
_NUMBERS = ("min", "max", "mean", "std", "l2")
_COUNTS = ("nan", "posinf", "neginf", "zero")
_KIND = ("dtype", "shape", "count")
_SPARE = ("posinf", "neginf", "nan", "zero", "l2", "std")
"""Columns that a narrow terminal goes without."""
_LAST = 10
_OTHERS = 12

Data = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope show`."""
    parser.add_argument("run", metavar="RUN", help='a path, a name, the start of one, or "last"')
    parser.add_argument(
        "node", metavar="NODE[:slot]", nargs="?", help='or "hits", or "hits/step_S"'
    )
    parser.add_argument("--rank", type=int, help="default: the first rank")
    parser.add_argument("--step", type=count, help="the numbers of this step only")
    parser.add_argument(
        "--last", type=count, metavar="N", help=f"the last N steps (default {_LAST}; 0 = all)"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the run knows about the node, or about itself."""
    from opscope.read.node_view import node_view
    from opscope.read.reader import open_recording

    recorded = open_recording(args.run)
    rank = recorded.rank(next(iter(recorded.ranks), 0) if args.rank is None else args.rank)
    if args.node is None:
        if args.step is not None or args.last is not None:
            option = "--step" if args.step is not None else "--last"
            raise OpscopeError(f"{option} is about an operator: name one; opscope nodes lists them")
        return _show_all(args.run, rank.number, args.json)
    if args.node.rstrip("/") == HIT_STATES or args.node.startswith(f"{HIT_STATES}/"):
        if "hits" in recorded.lacks:
            raise OpscopeError(recorded.lacks["hits"])
        return _show_state(rank, args.node, args.json)
    address = parse_address(args.node)
    node, others = choose_node(rank.nodes.values(), address.node, args.run)
    steps = None if args.step is None else {args.step}
    view = node_view(recorded, rank, node, steps)
    _narrow(view, address)
    if address.pass_number is not None:
        _narrow_to_pass(view, address.pass_number)
    if args.step is not None:
        _require_rows(view, rank, args.step)
    keep = args.last if args.last is not None else (0 if args.json else _LAST)
    earlier = _keep_last(view, keep)
    if args.json:
        print_json(view)
    else:
        _print(view, earlier)
        _print_others(others, args)
    return 0


def _show_all(run: str, rank: int, as_json: bool) -> int:
    """Print the run at a glance."""
    from opscope.commands.overview import print_overview
    from opscope.read.reader import open_reader
    from opscope.views.overview import overview
    from opscope.views.rank_view import RankView

    reader = open_reader(run)
    found = overview(RankView(reader, rank))
    if as_json:
        print_json({"name": reader.path.resolve().name, "path": str(reader.path), **found})
    else:
        title = f"{reader.path.resolve().name}: {found['state']}"
        print_overview(title, found, run, list(_ending(reader.path, rank, run)))
    return 0


def _ending(path: Path, rank: int, run: str) -> Iterator[str]:
    """Say how a training ended that did not finish, and where there is more about it."""
    from opscope.read.state import KILLED, rank_state
    from opscope.record.places import recordings
    from opscope.rundir.ending import FAILED
    from opscope.rundir.layout import rank_directory

    state = rank_state(rank_directory(path, rank))
    if state.kind not in (FAILED, KILLED):
        return
    if state.message:
        yield f"{state.reason}: {state.message}"
    if recordings(path):
        yield f"how it ended: {typed('report', run)}"


def _print_others(others: Sequence[Node], args: argparse.Namespace) -> None:
    """Name what else matches."""
    if others:
        print_line()
        matching = counted(len(others), "other operator matches", "other operators match")
        print_line(f"{matching} {args.node}:")
        for node in others[:_OTHERS]:
            print_line(f"  {node.id:>6}  {fitted(node.name, 10)}")
        if len(others) > _OTHERS:
            print_line(f"  all of them: {typed('nodes', args.run, args.node)}")


def _show_state(rank: RankReader, text: str, as_json: bool) -> int:
    """Print what was saved with a hit."""
    from opscope.read.hit_state import find_state, state_facts, tensors_in

    state = find_state(rank.path, text)
    facts = state_facts(state)
    rows = []
    for part, tensor in tensors_in(state):
        numbers = _numbers_of(tensor)
        rows.append(
            {
                "part": part,
                "name": tensor.name,
                "dtype": tensor.code,
                "shape": list(tensor.shape),
                **(numbers._asdict() if numbers else dict.fromkeys(_NUMBERS + _COUNTS)),
            }
        )
    if as_json:
        print_json({"path": str(state), **facts, "tensors": rows})
        return 0
    print_line(f"{state}  (step {facts.get('step')}, rank {facts.get('rank')})")
    print_line(f"  {'began in':<12} {facts.get('node')}")
    print_line(f"  {'line':<12} {facts.get('where')}")
    for left_out in facts.get("left_out", ()):
        print_line(f"  {'not saved':<12} {left_out}")
    print_line()
    columns = ("part", "name", "dtype", "shape", *_NUMBERS, *_COUNTS)
    print_table(columns, [[row[name] for name in columns] for row in rows])
    return 0


def _numbers_of(tensor: SavedTensor) -> Row | None:
    try:
        return tensor.stats()
    except OpscopeError as error:
        say(str(error))
        return None


def _narrow(view: Data, address: Address) -> None:
    """Keep the one slot that was asked for."""
    if address.slot is None:
        return
    kept, other = ("inputs", "outputs") if address.io is IO.INPUT else ("outputs", "inputs")
    slots = [value["slot"] for value in view[kept]]
    if address.slot not in slots:
        known = ", ".join(map(str, slots)) or "none"
        raise OpscopeError(f"{view['name']} has no {address.io} {address.slot}; it has: {known}")
    view[kept] = [value for value in view[kept] if value["slot"] == address.slot]
    view[other] = []


def _narrow_to_pass(view: Data, number: int) -> None:
    """Keep the values of one pass of each step; a step with one pass has pass 0 only."""
    for value in view["inputs"] + view["outputs"]:
        value["rows"] = [row for row in value["rows"] if (row["pass"] or 0) == number]


def _require_rows(view: Data, rank: RankReader, step: int) -> None:
    if any(value["rows"] for value in view["inputs"] + view["outputs"]):
        return
    steps = [value.step for value in rank.values({view["node"]})]
    known = f"it has steps {min(steps)} to {max(steps)}" if steps else "it has none"
    raise OpscopeError(f"there are no numbers of {view['name']} in step {step}; {known}")


def _keep_last(view: Data, count: int) -> int:
    """Drop all but the last steps; returns how many steps were dropped."""
    values = view["inputs"] + view["outputs"]
    steps = sorted({row["step"] for value in values for row in value["rows"]})
    kept = set(steps[-count:]) if count else set(steps)
    since = min(kept) if kept and count else None
    for value in values:
        value["rows"] = [row for row in value["rows"] if row["step"] in kept]
        if since is not None:
            value["between"] = [gap for gap in value["between"] if gap["last"] >= since]
    return len(steps) - len(kept)


def _print(view: Data, earlier: int) -> None:
    number = f"  (node {view['node']}, graph {view['graph']}, rank {view['rank']})"
    print_line(f"{fitted(view['name'], len(number))}{number}")
    for name in _FACTS:
        if view[name]:
            print_line(f"  {name.replace('_', ' '):<12} {fitted(str(view[name]), 15)}")
    for name, text in view["arguments"].items():
        print_line(f"  {'argument':<12} {fitted(f'{name}={text}', 15)}")
    _print_stack(view["stack"])
    for value in view["inputs"] + view["outputs"]:
        _print_value(value)
    if earlier:
        print_line()
        steps = counted(earlier, "earlier step is", "earlier steps are")
        print_line(f"{steps} not shown; --last 0 shows all")


def _print_stack(stack: list[Data]) -> None:
    for frame in [frame for frame in stack if frame["user"]] or stack:
        function = f":{frame['line']} in {frame['function']}"
        print_line(f"  {fitted(near(frame['file']), len(function) + 2)}{function}")
        if frame["code"]:
            print_line(f"      {fitted(frame['code'], 6)}")


def _print_value(value: Data) -> None:
    print_line()
    place, kind = f"{value['io']} {value['slot']}", _constant(value["rows"])
    print_line(f"{place}{fitted(_origin(value), len(place) + len(kind))}{kind}")
    if not value["rows"] and not value["between"]:
        never = ": memory that nothing has been written to yet" if value["uninitialised"] else ""
        print_line(f"  no numbers{never}")
        return
    several = ("pass",) if any(row["pass"] is not None for row in value["rows"]) else ()
    extra = dict.fromkeys(name for row in value["rows"] for name in row["extra"])
    columns = ("step", *several, *_varying(value["rows"]), *_NUMBERS, *extra, *_COUNTS)
    rows = [{**row, **dict.fromkeys(extra), **row["extra"]} for row in value["rows"]]
    lines = [(row["step"], [row[name] for name in columns]) for row in rows]
    lines += [(gap["first"], _gap_line(gap, columns)) for gap in value["between"]]
    shown = [line for _, line in sorted(lines, key=lambda line: line[0])]
    print_table(columns, shown, spare=_SPARE)


def _varying(rows: Sequence[Data]) -> list[str]:
    """Return what is not the same in all rows, of what usually is."""
    return [name for name in _KIND if any(row[name] != rows[0][name] for row in rows)]


def _constant(rows: Sequence[Data]) -> str:
    """The dtype and the shape of a value, where all its rows have the same."""
    same = [
        cell(rows[0][name])
        for name in ("dtype", "shape")
        if rows and name not in _varying(rows) and rows[0][name] is not None
    ]
    return f", {' '.join(same)}" if same else ""


def _gap_line(gap: Data, columns: Sequence[str]) -> list[Any]:
    """The extremes of steps that were left out, as a line of the table."""
    steps = f"{gap['first']}-{gap['last']}" if gap["first"] != gap["last"] else gap["first"]
    return [steps, *(gap.get(name) for name in columns[1:])]


def _origin(value: Data) -> str:
    source = value.get("source")
    if source is None:
        return f": updates {value['parameter']}" if value.get("parameter") else ""
    if "kind" in source:
        return f": {source['kind']} {source['name']}".rstrip()
    return f": from {source['name']}:{cell(source['slot'])}"
