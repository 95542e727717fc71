"""The command line of the peer suite."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
from collections.abc import Sequence

from peers import units
from peers.runner import LIMIT_S, Plan, Report, run, unit_of
from peers.watchers import WATCHERS


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name; 1 if anything was different."""
    given = _parser().parse_args(arguments)
    names = _names(given)
    if given.list:
        print("\n".join(names))
        return 0
    plan = Plan(
        names,
        given.watcher,
        given.most or (units.MOST_SAMPLES if given.whole else units.FEW_SAMPLES),
        frozenset(given.case or ()),
        given.jobs,
        given.limit,
    )
    report = run(plan, _say if given.progress else lambda text: None)
    print(json.dumps(dataclasses.asdict(report)) if given.json else told(report))
    return 1 if report.failures else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python tests/peers", description=__doc__)
    parser.add_argument("--case", action="append", help="one case, as failures name it")
    parser.add_argument("--units", action="append", help="a pattern: 'op:linalg.*:float32'")
    parser.add_argument("--ops", action="append", help="an operator's name or a pattern")
    parser.add_argument("--dtype", action="append", help="with --ops: only this dtype")
    parser.add_argument("--whole", action="store_true", help="all units, not the sample")
    parser.add_argument("--chunk", help="k/n: of these only the k-th of n parts, from 0")
    parser.add_argument("--most", type=int, help="at most so many sample inputs of each sort")
    parser.add_argument("--watcher", choices=WATCHERS, default="opscope")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one case")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    parser.add_argument("--list", action="store_true", help="only name the units")
    parser.add_argument(
        "--progress", action="store_true", help="say each unit as it ends, on stderr"
    )
    return parser


def _names(given: argparse.Namespace) -> list[str]:
    """The units that are asked for."""
    if given.case:
        return sorted({unit_of(case) for case in given.case})
    dtypes = given.dtype or ["*"]
    patterns = list(given.units or ())
    patterns += [f"op:{name}:{dtype}" for name in given.ops or () for dtype in dtypes]
    if patterns:
        names = [n for n in units.whole() if any(fnmatch.fnmatch(n, p) for p in patterns)]
        if not names:
            sys.exit(f"no unit is called {' or '.join(patterns)}")
    else:
        names = units.whole() if given.whole else units.sampled()
    if given.chunk:
        part, _, number = given.chunk.partition("/")
        names = units.chunks(names, int(number))[int(part)]
    return names


def told(report: Report) -> str:
    """A report in words, with the command that repeats each failure."""
    lines = []
    for name, what in report.failures.items():
        kind = "CRASH" if name in report.crashes else "DIFFERENT"
        lines += [f"{kind} {name}", *(f"    {line}" for line in what.splitlines())]
        lines.append(f"    again: {again(name, report.engine)}")
    lines.append(
        f"{report.cases} cases ({report.rows} tensors compared with their rows), "
        f"{len(report.differences)} different, {len(report.crashes)} crashed, "
        f"{len(report.skipped)} skipped, by the {report.engine} engine in {report.seconds:.0f} s"
    )
    return "\n".join(lines)


def again(case: str, engine: str) -> str:
    """The command that runs a case once more."""
    if engine in WATCHERS:
        return f"python tests/peers --watcher {engine} --case '{case}'"
    switch = "OPSCOPE_NATIVE=0 " if engine == "python" else ""
    return f"{switch}python tests/peers --case '{case}'"
