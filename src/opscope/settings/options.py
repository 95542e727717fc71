"""The options of a run: their checks, and the values each source gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.errors import MISSING, Problem
from opscope.settings.checks import (
    InvalidError,
    Item,
    ValueCheck,
    boolean,
    checked,
    did_you_mean,
    integer,
    kind,
    list_of,
    one_of,
    text,
)
from opscope.settings.environment import SOURCE as ENVIRONMENT
from opscope.settings.environment import Environment, whole
from opscope.settings.iterations import Iterations
from opscope.settings.projectfile import ProjectFile
from opscope.settings.recorder import RECORDER_KEYS
from opscope.settings.recorder import SECTION as RECORDER
from opscope.settings.sections import read_sections
from opscope.settings.sizes import parse_size

COMMAND_LINE = "command line"
DEBUGGER_HOST, DEBUGGER_PORT = "127.0.0.1", 50051
"""The address at which a server waits for trainings."""
PHASES = ("setup", "data", "eval")


def _word(value: object) -> str:
    if not text(value).strip():
        raise InvalidError("must not be empty")
    return text(value).strip()


def _path(value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise InvalidError(f"must be a path, not {kind(value)}")
    path = os.fspath(value)
    if not isinstance(path, str) or not path.strip():
        raise InvalidError("must be a path, not empty")
    return path


def _number(low: int) -> ValueCheck:
    """A whole number, in digits on a command line."""
    typed, written = integer(low), whole(low)
    return lambda value: written(value) if isinstance(value, str) else typed(value)


def _phases(value: object) -> frozenset[str]:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if isinstance(names, set | frozenset):
        names = sorted(names)
    return frozenset(list_of(one_of(*PHASES))(names))


def _names(value: object) -> tuple[str, ...]:
    """Some names, with commas between them or as a list."""
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in list_of(_word)(names))


def _words(value: object) -> str:
    """Some words, as one text with commas between them."""
    return value if isinstance(value, str) else ",".join(list_of(text)(value))


def _server(value: object) -> str:
    """host:port of a server, each may be left out; with wss:// in front if it has a certificate."""
    given = text(value).strip()
    scheme, mark, place = given.rpartition("://")
    if scheme not in ("", "ws", "wss"):
        raise InvalidError("must begin with wss:// or ws://, or with the host")
    secure = f"{scheme}{mark}" if scheme == "wss" else ""
    return secure + _host_and_port(place.rstrip("/"))


def _host_and_port(place: str) -> str:
    host, _, port = place.rpartition(":")
    if not port:
        raise InvalidError("must be host:port, such as 127.0.0.1:50051")
    if not port.isdigit():
        if host and not place.endswith("]"):  # that of IPv6 has colons of its own, in brackets
            raise InvalidError("the port must be a number from 1 to 65535")
        host, port = place, str(DEBUGGER_PORT)
    if not 1 <= int(port) <= 65535:
        raise InvalidError("the port must be from 1 to 65535")
    return f"{host or DEBUGGER_HOST}:{int(port)}"


def _size_or_none(value: object) -> int:
    return 0 if value in ("none", 0, "0") else parse_size(value)


def _recorder(value: object) -> dict[str, object]:
    """The table of a project file that says what the recorder does."""
    if not isinstance(value, dict):
        raise InvalidError(f"must be a table, not {kind(value)}")
    reading = read_sections("", {RECORDER: value}, RECORDER_KEYS)
    if reading.problems:
        bad = [Item(p.key.removeprefix(RECORDER), p.value, p.message) for p in reading.problems]
        raise InvalidError("has bad keys", bad)
    return {name: reading.values[name] for name in reading.given}


OPTIONS: dict[str, ValueCheck] = {
    "dump": _path,
    "watch": _word,
    "record": boolean,
    "stats": boolean,
    "extra_stats": _names,
    "write_run": boolean,
    "config": _path,
    "rdr": _recorder,
    "page": boolean,
    "every": _number(1),
    "steps": Iterations.parse,
    "scope": _word,
    "run_dir": _path,
    "budget": parse_size,
    "keep_runs": _number(0),
    "include": _phases,
    "on_hit": one_of("stop", "pause", "log"),
    "on_hit_kinds": _words,
    "quick": boolean,
    "strict": boolean,
    "save_state": _size_or_none,
    "server": _server,
    "wait": boolean,
    "patience": _number(1),
    "keep": one_of("named", "all", "none"),
    "keep_budget": parse_size,
}
"""Every option by the name it has in a project file."""

NEGATED = {"no_record": "record", "no_stats": "stats", "no_page": "page"}
"""Flags that switch an option off."""


@dataclass(frozen=True)
class Given:
    """One option as a source gave it: the checked value, and where it stood."""

    value: Any
    file: str
    key: str
    folder: Path
    """The folder that relative paths start from."""


@dataclass
class Layer:
    """The options one source gave, and what was wrong with the others."""

    options: dict[str, Given] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, name: str, value: object, file: str, key: str, folder: Path) -> None:
        """Check an option and keep it or its problems."""
        result, problems = checked(OPTIONS[name], value, file, key)
        self.problems += problems
        if not problems:
            self.options[name] = Given(result, file, key, folder)


def flag_layer(flags: Mapping[str, object], folder: Path, source: str) -> Layer:
    """Options given as flags; None, False and an empty list mean "not given"."""
    layer = Layer()
    for name, value in flags.items():
        if value is None or value is False or value in ([], ()):
            continue
        key = _flag(name, source)
        if name in NEGATED and flags.get(NEGATED[name]):
            message = f"contradicts {_flag(NEGATED[name], source)}; give one of them"
            layer.problems.append(Problem(source, key, MISSING, message))
        elif name in NEGATED:
            layer.add(NEGATED[name], False, source, key, folder)
        elif name in OPTIONS:
            layer.add(name, value, source, key, folder)
    return layer


def _flag(name: str, source: str) -> str:
    """Name a flag as the person does: `--no-record` on a command line, `no_record` in code."""
    return f"--{name.replace('_', '-')}" if source == COMMAND_LINE else name


def environment_layer(environment: Environment, folder: Path) -> Layer:
    """Options given by environment variables."""
    layer = Layer(problems=list(environment.problems))
    if environment.dump_config:
        variable = environment.dump_variable
        layer.add("dump", environment.dump_config, ENVIRONMENT, variable, folder)
    if environment.run_dir:
        layer.add("run_dir", environment.run_dir, ENVIRONMENT, "OPSCOPE_RUN_DIR", folder)
    if not environment.page:
        layer.add("page", False, ENVIRONMENT, "OPSCOPE_PAGE", folder)
    if environment.server:
        layer.add("server", environment.server, ENVIRONMENT, "ENABLE_MS_DEBUGGER", folder)
        layer.add("wait", True, ENVIRONMENT, "ENABLE_MS_DEBUGGER", folder)
    return layer


def project_layer(project: ProjectFile) -> Layer:
    """Options given by a project file; paths in it are relative to the file."""
    layer = Layer(problems=list(project.problems))
    if project.file is None:
        return layer
    for name, value in project.data.items():
        file, key = str(project.file), project.prefix + name
        if name in OPTIONS:
            layer.add(name, value, file, key, project.file.parent)
        else:
            hint = did_you_mean(name, OPTIONS)
            layer.problems.append(Problem(file, key, value, f"unknown key{hint}"))
    return layer
