"""Say what works here: versions, native parts, optional packages, and what is missing.

A training of one step is watched for it. The exit code is 0 if that works and 1 if it does not;
what is only slower, or needed by some verbs alone, is no error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

from opscope._version import __version__
from opscope.commands.output import add_json_flag, print_json
from opscope.doctor import OK, ExaminedPart, examine, works
from opscope.waiting import Waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope doctor`."""
    parser.add_argument(
        "--build", action="store_true", help="build native parts now, not at the first run"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 if nothing can be watched."""
    findings = list(examine(args.build)) if args.json else list(_printed(examine(args.build)))
    can_watch = works(findings)
    if args.json:
        listed = [asdict(finding) for finding in findings]
        print_json({"opscope": __version__, "works": can_watch, "findings": listed})
    return 0 if can_watch else 1


def _printed(findings: Iterator[ExaminedPart]) -> Iterator[ExaminedPart]:
    """Print each part as soon as it is known, and on a terminal a sign until then."""
    print(f"opscope {__version__}", flush=True)
    while True:
        with Waiting("examining"):
            finding = next(findings, None)
        if finding is None:
            return
        _print(finding)
        yield finding


def _print(finding: ExaminedPart) -> None:
    lines = [f"  {finding.name:<12} {finding.state:<8} {finding.detail}".rstrip()]
    if finding.cost and finding.state != OK:
        lines.append(f"  {'':<12} {'':<8} → {finding.cost}")
    print("\n".join(lines), flush=True)
