"""`set_context`, as MindSpore scripts call it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from opscope.errors import MISSING, ConfigError, Problem
from opscope.messages import say_once
from opscope.settings.checks import (
    Check,
    InvalidError,
    boolean,
    checked,
    did_you_mean,
    kind,
    one_of,
    text,
)
from opscope.settings.context_keys import WITHOUT_EFFECT
from opscope.settings.jsonfile import read_json_file
from opscope.settings.paths import absolute, writable_directory
from opscope.settings.sections import Key, read_sections

SOURCE = "set_context"


@dataclass(frozen=True)
class Recorder:
    """The "rdr" section of an env_config_path file; `path` is empty when it is not set."""

    enable: bool = False
    mode: int = 1
    path: str = ""


@dataclass(frozen=True)
class Context:
    """What the script has set with `set_context`."""

    env_config_path: str = ""
    recorder: Recorder | None = None
    mem_reuse: bool | None = None
    save_graphs: int = 0
    reserve_class_name_in_scope: bool = True


def _save_graphs(value: object) -> int:
    if isinstance(value, bool):
        return 2 if value else 0
    if not isinstance(value, int) or not 0 <= value <= 3:
        raise InvalidError("must be 0, 1, 2 or 3, or True (2) or False (0)")
    return value


def _file(value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise InvalidError(f"must be the path of a JSON file, not {kind(value)}")
    return os.fspath(value)


def _directory(value: object) -> str:
    path = text(value)
    return str(writable_directory(absolute(path))) if path else ""


CONTEXT_KEYS: dict[str, tuple[str, Check]] = {
    "env_config_path": ("now", _file),
    "enable_mem_reuse": ("now", boolean),
    "mode": ("now", one_of(0, 1)),
    "save_graphs": ("now", _save_graphs),
    "reserve_class_name_in_scope": ("now", boolean),
}
"""The keys with a meaning here: status and check."""

_FIELDS = {"enable_mem_reuse": "mem_reuse"}
"""Keys → what they are called in the context, where that differs."""

ENV_CONFIG_KEYS = (
    Key("rdr", "enable", boolean, False, status="later"),
    Key("rdr", "mode", one_of(1, 2), 1, status="later"),
    Key("rdr", "path", _directory, "", status="later"),
    Key("sys", "mem_reuse", boolean, None),
)

_MODE = (
    "set_context: PyTorch runs eagerly, and as graphs where the script says torch.compile; "
    "mode does not change that"
)
_context = Context()
_listeners: list[Callable[[], None]] = []


def on_context(listener: Callable[[], None]) -> None:
    """Have a function called whenever the script has set something."""
    _listeners[:] = [listener]


def current_context() -> Context:
    """What `set_context` has set so far."""
    return _context


def reset_context() -> None:
    """Go back to the defaults, as a new session in the same process does."""
    global _context
    _context = Context()


def set_context(**kwargs: Any) -> None:
    """Set env_config_path, save_graphs, reserve_class_name_in_scope, enable_mem_reuse or mode.

    Other keys of MindSpore's set_context are accepted and said once to have no effect. With any
    problem nothing is set, and every problem is reported.
    """
    global _context
    changes, problems = _check(kwargs)
    problems += _unknown(kwargs)
    if problems:
        raise ConfigError(problems)
    _context = replace(_context, **changes)
    for listener in _listeners:
        listener()
    for name in kwargs:
        if name in WITHOUT_EFFECT:
            say_once(f"set_context: {name} has no effect in opscope")
        elif name == "mode":
            say_once(_MODE)
    if _context.recorder is not None and "env_config_path" in kwargs:
        say_once("set_context: the section rdr of env_config_path has no effect yet")


def _unknown(kwargs: dict[str, Any]) -> list[Problem]:
    known = WITHOUT_EFFECT | CONTEXT_KEYS.keys()
    return [
        Problem(SOURCE, name, value, f"unknown key{did_you_mean(name, known)}")
        for name, value in kwargs.items()
        if name not in known
    ]


def _check(kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    changes: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in [name for name in CONTEXT_KEYS if name in kwargs]:
        value, found = checked(CONTEXT_KEYS[name][1], kwargs[name], SOURCE, name)
        problems += found
        if not found and name != "mode":
            changes[_FIELDS.get(name, name)] = value
    if "env_config_path" in changes:
        file_changes, file_problems = _read_env_config(changes["env_config_path"])
        changes = file_changes | changes
        problems += file_problems
    return changes, problems


def _read_env_config(file: str) -> tuple[dict[str, Any], list[Problem]]:
    document = read_json_file(file)
    if document.data is None:
        return {}, list(document.problems)
    reading = read_sections(file, document.data, ENV_CONFIG_KEYS)
    values = reading.values
    recorder = None
    if "rdr" in document.data:
        recorder = Recorder(*(values.get(name, MISSING) for name in ("enable", "mode", "path")))
    changes = {"recorder": recorder}
    if values.get("mem_reuse") is not None:
        changes["mem_reuse"] = values["mem_reuse"]
    return changes, [*document.problems, *reading.problems]
