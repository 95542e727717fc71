"""One file per verb of the command line.

A verb is a module here with a docstring (its help), `add_arguments(parser)` and `run(args) -> int`.
Commands may import everything; nothing imports commands.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from pathlib import Path

from opscope._version import __version__
from opscope.commands.first_word import SOON, waiting_for_words
from opscope.commands.interrupt import ended_in_a_line, hearing_ctrl_c
from opscope.commands.parsing import HelpFormatter, Parser
from opscope.early import end_quietly, hear_again
from opscope.errors import INTERRUPTED, OpscopeError
from opscope.messages import say
from opscope.regular import why
from opscope.settings.checks import did_you_mean
from opscope.spelling import spell_on
from opscope.waiting import Waiting

VERBS = (
    "run",
    "serve",
    "ctl",
    "attach",
    "view",
    "runs",
    "nodes",
    "hits",
    "show",
    "check",
    "query",
    "report",
    "convert",
    "doctor",
)


_WHILE = {
    **dict.fromkeys(("runs", "nodes", "hits", "show", "query", "report"), "reading"),
    "check": "checking",
    "convert": "converting",
    "doctor": "examining",
    "ctl": "asking",
    **dict.fromkeys(("view", "serve"), "starting"),
}
"""Verbs that may take a while before they answer, and what they do meanwhile."""


def build_parser(verb: str = "") -> Parser:
    """The command line, from the verbs' own modules; with a verb, only that one is loaded."""
    parser = Parser(
        prog="opscope",
        description="The debugger for training neural networks.",
        epilog="`opscope VERB --help` says more about each verb.",
    )
    parser.add_argument("--version", action="version", version=f"opscope {_version()}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in VERBS:
        if name != verb:
            verbs.add_parser(name, help=_summary(name))
            continue
        module = importlib.import_module(f"opscope.commands.{name}")
        summary = (module.__doc__ or _summary(name)).strip()  # Python may leave docstrings out
        sub = verbs.add_parser(
            name,
            help=summary.splitlines()[0],
            description=summary,
            formatter_class=HelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(command=module.run)
    return parser


def _summary(verb: str) -> str:
    """The first line of a verb's module, which is neither loaded nor parsed for it."""
    with open(Path(__file__).with_name(f"{verb}.py"), encoding="utf-8") as file:
        return file.readline().strip().strip('"')


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `opscope` program; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        hear_again()
    try:
        return _run(words) if words[:1] == ["run"] else _look(words)
    except OpscopeError as error:
        for line in str(error).split("\n"):
            say(line)
        return error.exit_code
    finally:
        if argv is None and words[:1] != ["run"]:
            end_quietly()


def _run(words: list[str]) -> int:
    """`opscope run`: what the script raises is the script's."""
    with Waiting("opscope: starting", SOON):
        with ended_in_a_line():
            args = _understood_before_a_script(words)
        code: int = args.command(args)  # which takes the sign away before the script runs
    return code


def _understood_before_a_script(words: list[str]) -> argparse.Namespace:
    """The words of `opscope run`, as far as they are not the script's."""
    parser = build_parser("run")
    words, rest = split_command(words, parser.options("run"))
    args, unknown = parser.parse_known_args(words)
    args.command_line, args.problems = rest, parser.unknown("run", unknown)
    return args


def _look(words: list[str]) -> int:
    """A verb that reads: whatever ends it does so in one line."""
    spell_on(sys.stdout)
    try:
        doing = _WHILE.get(words[0]) if words else None
        with hearing_ctrl_c(), waiting_for_words(doing) if doing else nullcontext():
            args = _understood(words)
            code: int = args.command(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # `opscope query … | head`: the reader has left, which is fine
        _leave_stdout()
        return 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one line is on its way
        say("interrupted")
        return INTERRUPTED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise OpscopeError(f"{place}{why(error)}") from None


def _understood(words: list[str]) -> argparse.Namespace:
    """The words of a verb that reads; all that is wrong with them is said at once."""
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    parser = build_parser(words[0] if words else "")
    words = words or ["--help"]
    if words[0].startswith("-") and words[0] not in parser.own_options():
        meant = did_you_mean(words[0], parser.own_options(), 0.8) or ": options stand after a verb"
        raise OpscopeError(f"opscope has no option {words[0]}{meant}")
    args, unknown = parser.parse_known_args(words)
    if unknown and not any(word.startswith("-") for word in unknown):
        again = parser.again(args.verb, words[1:])
        if again is not None:
            return argparse.Namespace(**vars(again), verb=args.verb)
    if unknown:
        raise OpscopeError("\n".join(parser.unknown(args.verb, unknown)))
    return args


def _leave_stdout() -> None:
    """Send what is still to be written nowhere, or Python would complain of it at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def split_command(words: list[str], flags: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Cut `run [options] script args…` before the script: what follows is not ours to read.

    `flags` are the options without a value; one that is neither is mistyped, and what follows it
    is taken for its value unless it looks like a script.
    """
    from opscope.commands.run import VALUE_OPTIONS

    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m" or not word.startswith("-"):
            return words[:position], words[position:]
        if word == "--":
            return words[:position], words[position + 1 :]
        position += 2 if word in VALUE_OPTIONS or _has_value(words[position:], flags) else 1
    return words, []


def _has_value(words: list[str], flags: Collection[str]) -> bool:
    """Tell whether an option that is mistyped stands before a value of its own."""
    option, *following = words
    if not flags or option in flags or "=" in option or not following:
        return False
    value = following[0]
    return not value.startswith("-") and not value.endswith(".py") and not Path(value).is_file()


def _version() -> str:
    return __version__
