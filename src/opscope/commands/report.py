"""Say how a training ended, and what it was doing: the post-mortem of a recording.

PATH is a run directory, the path that the recorder exports to, the folder of one rank, or a
`ring.bin` that a crash has left.

  opscope report PATH [--json | --html FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from opscope.atomic_files import write_whole
from opscope.commands.output import add_json_flag, print_folded, print_json, print_line
from opscope.errors import OpscopeError
from opscope.read.find import find_run
from opscope.record.post_mortem import read_stacks_of, report_of
from opscope.record.render_html import render_html
from opscope.record.render_text import render_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help='a run (also "last"), an export of the recorder, or a ring'
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    add_json_flag(parser)


def _find(text: str) -> Path:
    """A path, or the run of that name."""
    path = Path(text)
    return path if path.exists() else find_run(text)


def run(args: argparse.Namespace) -> int:
    path = _find(args.path)
    report = report_of(path)
    if args.html:
        file = Path(args.html)
        try:
            write_whole(file, render_html(report, read_stacks_of(path)).encode())
        except OSError as error:
            raise OpscopeError(f"cannot write {file}: {error.strerror}") from error
    if args.json:
        print_json(report)
    elif args.html:
        print_line(f"report written to {args.html}")
    else:
        for line in render_terminal(report):
            print_folded(line)
    return 0
