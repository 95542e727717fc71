"""What is asked of a recording: every verb that reads, and the reader of the Python interface."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import opscope
from fuzz.pages import about_recording, about_run
from fuzz.recorded import DUMP, RECORDING, SETTINGS, WATCH
from opscope.commands import build_parser, main
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.settings.run import load_run_settings

Question = tuple[str, Callable[[], object]]

_NODES = ("first-Linear/addmm-op0", "0", "1:input:0", "nothing like it", "hits", "hits/step_2")
_TABLES = ("nodes", "steps", "stacks", "stats", "gaps")
_WATCH = "OO; WNC; TL max_gt=1; LN; PU; UW; TR range_start_inclusive=0 range_percentage_lt=50"
_VALUES = 40


def questions(kind: str, path: Path) -> list[Question]:
    """Each with how a person would ask it."""
    if kind == SETTINGS:
        return _about_settings(path)
    if kind == RECORDING:
        return _reports(path) + about_recording(path)
    name = str(path)
    asked = [
        ["runs", str(path.parent)],
        ["runs", str(path.parent), "--json"],
        ["nodes", name],
        ["nodes", name, "Linear", "--json"],
        ["show", name],
        ["show", name, "--json"],
        ["hits", name],
        ["hits", name, "--json"],
        ["check", name],
        ["check", name, "--json"],
        ["check", name, "--watch", _WATCH],
        ["convert", name, "--output", str(path.parent / "converted")],
        ["convert", name, "--json"],
    ]
    asked += [["show", name, node] for node in _NODES]
    asked += [["show", name, _NODES[1], "--json"], ["show", name, "hits", "--json"]]
    asked += [["query", name, f"select * from {table}"] for table in _TABLES]
    asked += [["query", name, f"select * from {table}", "--json"] for table in _TABLES[:2]]
    asked += [["query", name, "select * from nodes", "--csv"]]
    return [
        *((" ".join(words), partial(main, words)) for words in asked),
        (f"opscope.open({name!r}): nodes", partial(_nodes, path)),
        (f"opscope.open({name!r}): values", partial(_values, path)),
        (f"opscope.open({name!r}): hits", partial(_hits, path)),
        *about_run(path),
    ]


def _reports(path: Path) -> list[Question]:
    name, page = str(path), str(path.parent / "report.html")
    asked = (["report", name], ["report", name, "--json"], ["report", name, "--html", page])
    return [(" ".join(words), partial(main, words)) for words in asked]


def _about_settings(path: Path) -> list[Question]:
    words = ["check", "no such run", "--watch", str(path / WATCH)]
    return [
        (" ".join(words), partial(main, words)),
        (f"run --dump {path / DUMP}", partial(_run_settings, path, "--dump", str(path / DUMP))),
        (f"run --watch {path / WATCH}", partial(_run_settings, path, "--watch", str(path / WATCH))),
    ]


def _run_settings(path: Path, *words: str) -> None:
    """What `opscope run` makes of its options and files before it runs anything."""
    try:
        load_run_settings(vars(build_parser("run").parse_args(["run", *words])), {}, path)
    except OpscopeError as error:
        for line in str(error).split("\n"):
            say(line)


def _nodes(path: Path) -> None:
    reader = opscope.open(path)
    repr(reader)
    for node in reader.select_nodes():
        repr(node)
        reader.rank_of(node)
        for frame in node.stack.frames:
            reader.code(frame)
        if reader.is_run:
            repr(reader.inputs(node)), repr(reader.consumers(node))


def _values(path: Path) -> None:
    reader = opscope.open(path)
    for value in reader.select_values()[:_VALUES]:
        repr(value), repr(value.name)
        try:
            value.stats()
            if value.is_saved:
                value.array()
        except OpscopeError as error:
            print(error)


def _hits(path: Path) -> None:
    for hit in opscope.open(path).hits():
        repr((hit, hit.step))
