"""How a block of each kind is run."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import opscope
from documentation.markdown import ROOT, Block
from documentation.player import WIDTHS, Player, Printed
from documentation.shown import difference, missing, wider
from helpers.forked import forked_python
from live.conftest import wait_for
from opscope.commands import build_parser
from opscope.errors import HIT
from opscope.judge.watch_set import load
from opscope.settings.context import read_env_config
from opscope.settings.dump import load_dump_settings

Space = dict[str, Any]
_FITTING = ("runs", "nodes", "show", "hits", "query")
"""Verbs that print tables and names; the others also print sentences, which a terminal wraps."""


def play(block: Block, player: Player, space: Space) -> None:
    """Run a block, and compare."""
    if block.note("not run") is not None:
        return
    for kind, text in block.notes:
        if kind == "first":
            player.type(text)
    for kind, check in _BY_NOTE.items():
        if (text := block.note(kind)) is not None:
            check(block, player, text, space)
            if kind != "saved as":
                return
    _BY_LANGUAGE[block.language](block, player, space)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console, each with what is shown after it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def _console(block: Block, player: Player, space: Space) -> None:
    typed = commands(block.text)
    for command, shown in typed:
        if " status" in command:
            wait_for(functools.partial(_agrees, player, command, shown), 60)
            continue
        printed = player.type(command)
        _compare(f"{block.place}: {command}", shown, printed)
    _expect(block, player)


def _agrees(player: Player, command: str, shown: list[str]) -> bool:
    return not difference(shown, player.type(command).texts[0].splitlines())


def _compare(place: str, shown: list[str], printed: Printed) -> None:
    narrow, *others = printed.texts
    found = difference(shown, narrow.splitlines())
    assert not found, f"{place}\n{found}\n\nall of it:\n{narrow}"
    for text in others:
        _compare_wider(place, narrow.splitlines(), text.splitlines())


def _compare_wider(place: str, narrow: list[str], wide: list[str]) -> None:
    """On a wide terminal there are the same words or more, a sentence perhaps in fewer lines."""
    rest = list(reversed(narrow))
    for other in wide:
        one = rest.pop() if rest else ""
        assert wider(one, other), f"{place}\n{one}\n{other}"
        while rest and rest[-1].strip() and wider(f"{one} {rest[-1].strip()}", other):
            one = f"{one} {rest.pop().strip()}"
    assert not rest, f"{place}\n{rest[-1]}"


def _sh(block: Block, player: Player, space: Space) -> None:
    for line in _joined(block.text):
        printed = player.type(line)
        good = (0, HIT) if line.startswith("opscope check") else (0,)
        assert printed.code in good, f"{block.place}: {line}\n{printed.texts[0]}"
        if re.match(rf"opscope ({'|'.join(_FITTING)}) ", line):
            for width, text in zip(WIDTHS, printed.texts, strict=True):
                _fits(f"{block.place}: {line}", text, width)


def _joined(text: str) -> list[str]:
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def _fits(place: str, text: str, width: int) -> None:
    too_long = [line for line in text.splitlines() if len(line) > width]
    assert not too_long, f"{place}: wider than {width}\n{too_long[0]}"


def _expect(block: Block, player: Player) -> None:
    wanted = int(block.note("exit code") or 0)
    if "echo $?" not in block.text:
        assert player.code == wanted, f"{block.place}: exit code {player.code}"


def _python(block: Block, player: Player, space: Space) -> None:
    text = _with_places(player.real(block.text), player)
    shown = io.StringIO()
    with contextlib.chdir(player.folder), contextlib.redirect_stdout(shown):
        try:
            exec(compile(text, str(player.folder / "block.py"), "exec"), space)
        finally:
            opscope.stop()
    space["__printed__"] = player.told(shown.getvalue())
    promised = re.findall(r"^(?:print\(|model\.).*\)  # (.+)$", block.text, re.MULTILINE)
    absent = missing(promised, space["__printed__"].splitlines())
    assert not absent, f"{block.place}: {absent} was not printed, but\n{shown.getvalue()}"


def _with_places(text: str, player: Player) -> str:
    """A script in which `…` within a path stands for the one file that is there."""

    def found(match: re.Match[str]) -> str:
        pattern = match[1].replace("…", "*")
        newest = max(player.folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        return f'"{newest.relative_to(player.folder)}"'

    return re.sub(r'"([\w./-]*…[\w./-]*)"', found, text)


def _json(block: Block, player: Player, space: Space) -> None:
    config = json.loads(block.text)
    file = player.folder / "checked.json"
    file.write_text(player.real(block.text))
    if "common_dump_settings" in config:
        assert load_dump_settings(str(file), {}).notices == (), block.place
    elif "watchpoints" in config:
        assert len(load(str(file)).enabled) >= len(config["watchpoints"])
    else:
        assert read_env_config(str(file))[1] == [], block.place


def _toml(block: Block, player: Player, space: Space) -> None:
    assert tomllib.loads(block.text)


def _saved(block: Block, player: Player, name: str, space: Space) -> None:
    (player.folder / name).write_text(player.real(block.text))


def _part(block: Block, player: Player, name: str, space: Space) -> None:
    """The lines stand in the file one after the other; `# line N` says where."""
    lines = [line.strip() for line in (ROOT / name).read_text().splitlines()]
    wanted = block.text.strip().splitlines()
    plain = [re.sub(r"  # line \d+$", "", line).strip() for line in wanted]
    starts = [i for i in range(len(lines)) if lines[i : i + len(plain)] == plain]
    assert starts, f"{block.place}: not in {name}"
    for offset, line in enumerate(wanted):
        if number := re.search(r"  # line (\d+)$", line):
            assert starts[0] + offset + 1 == int(number[1]), f"{block.place}: {line}"


def _printed_by(block: Block, player: Player, command: str, space: Space) -> None:
    printed = player.type(command).texts[0].splitlines()
    absent = missing(block.text.splitlines(), printed)
    assert not absent, f"{block.place}: {command} does not print\n{absent}\n\nbut\n" + "\n".join(
        printed[:60]
    )


def _printed_above(block: Block, player: Player, _: str, space: Space) -> None:
    printed = space["__printed__"].splitlines()
    absent = missing(block.text.splitlines(), printed)
    assert not absent, f"{block.place}: {absent} was not printed"


def _form(block: Block, player: Player, _: str, space: Space) -> None:
    """Verbs are there, and so are all options that are named."""
    for line in block.text.splitlines():
        words = line.split("opscope ", 1)[1]
        verb = words.split()[0]
        options = _options(verb)
        named = set(re.findall(r"--[\w-]+", re.split(r"  +", words)[0]))
        assert named <= options, f"{block.place}: {named - options}"
        if named:
            assert options - named <= {"--help"}, f"{block.place}: {options - named}"


@functools.cache
def _options(verb: str) -> set[str]:
    actions = build_parser(verb)._actions
    verbs = next(a for a in actions if isinstance(a, argparse._SubParsersAction))
    return {o for a in verbs.choices[verb]._actions for o in a.option_strings if o[:2] == "--"}


def _in_a_test(block: Block, player: Player, _: str, space: Space) -> None:
    file = player.folder / "test_block.py"
    file.write_text(f"from prelude import *\n\n\n{block.text}")
    done = forked_python("-m", "pytest", "-q", "-p", "no:cacheprovider", file, cwd=player.folder)
    assert done.returncode == 0, done.stdout


_BY_NOTE: dict[str, Callable[[Block, Player, str, Space], None]] = {
    "saved as": _saved,
    "part of": _part,
    "printed by": _printed_by,
    "printed above": _printed_above,
    "form of a command": _form,
    "in a test": _in_a_test,
}
_BY_LANGUAGE: dict[str, Callable[[Block, Player, Space], None]] = {
    "console": _console,
    "sh": _sh,
    "python": _python,
    "json": _json,
    "toml": _toml,
}
LANGUAGES = (*_BY_LANGUAGE, "text")
