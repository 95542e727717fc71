"""One file per verb of the command line.

A verb is a module here with a docstring (its help), `add_arguments(parser)` and `run(args) -> int`.
Commands may import everything; nothing imports commands.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from opscope.commands.run import VALUE_OPTIONS
from opscope.errors import OpscopeError
from opscope.messages import say

VERBS = ("run", "runs", "hits", "show", "check", "query", "convert", "doctor")


def build_parser(verb: str = "") -> argparse.ArgumentParser:
    """The command line, from the verbs' own modules; with a verb, only that one is loaded."""
    parser = argparse.ArgumentParser(
        prog="opscope",
        description="The debugger for training neural networks.",
        epilog="`opscope VERB --help` says more about each verb.",
    )
    parser.add_argument("--version", action="version", version=f"opscope {_version()}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in VERBS:
        if verb in VERBS and name != verb:
            verbs.add_parser(name)
            continue
        module = importlib.import_module(f"opscope.commands.{name}")
        summary = (module.__doc__ or "").strip()
        sub = verbs.add_parser(
            name,
            help=summary.splitlines()[0],
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(command=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `opscope` program; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] = []
    if words[:1] == ["run"]:
        words, rest = split_command(words)
    args = build_parser(words[0] if words else "").parse_args(words)
    args.command_line = rest
    try:
        code: int = args.command(args)
    except OpscopeError as error:
        for line in str(error).splitlines():
            say(line)
        return error.exit_code
    except BrokenPipeError:
        if args.verb == "run":
            raise
        # `opscope query … | head`: the reader has left, which is fine.
        if sys.stderr is not None:
            sys.stderr.close()
        return 0
    return code


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut `run [options] script args…` before the script: what follows is not ours to read."""
    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m" or not word.startswith("-"):
            return words[:position], words[position:]
        if word == "--":
            return words[:position], words[position + 1 :]
        takes_value = word in VALUE_OPTIONS
        position += 2 if takes_value else 1
    return words, []


def _version() -> str:
    from opscope import __version__

    return __version__
