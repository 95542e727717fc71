"""`set_context`, as MindSpore scripts call it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from opscope.errors import ConfigError, Problem
from opscope.messages import say_once
from opscope.settings.checks import (
    InvalidError,
    ValueCheck,
    boolean,
    checked,
    did_you_mean,
    kind,
    one_of,
)
from opscope.settings.context_keys import WITHOUT_EFFECT
from opscope.settings.jsonfile import read_json_file
from opscope.settings.recorder import RECORDER_KEYS
from opscope.settings.sections import SettingKey, read_sections

SOURCE = "set_context"


@dataclass(frozen=True)
class Context:
    """The settings a script has made with `set_context`."""

    env_config_path: str = ""
    recorder: Mapping[str, Any] = field(default_factory=dict)
    """The content of the section "rdr" of that file."""
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


CONTEXT_KEYS: dict[str, tuple[str, ValueCheck]] = {
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
    *RECORDER_KEYS,
    SettingKey("sys", "mem_reuse", boolean, None),
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
    """Return what `set_context` has set so far."""
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
    given, problems = read_env_config(file)
    changes: dict[str, Any] = {"recorder": given.recorder}
    if given.mem_reuse is not None:
        changes["mem_reuse"] = given.mem_reuse
    return changes, problems


class EnvConfig(NamedTuple):
    """The content of a `mindspore_config.json`."""

    recorder: Mapping[str, Any] = {}
    mem_reuse: bool | None = None


def read_env_config(file: str, folder: Path | None = None) -> tuple[EnvConfig, list[Problem]]:
    """Read such a file, and what is wrong with it."""
    document = read_json_file(file, folder)
    if document.data is None:
        return EnvConfig(), list(document.problems)
    reading = read_sections(file, document.data, ENV_CONFIG_KEYS)
    recorder = {
        key.name: reading.values[key.name]
        for key in RECORDER_KEYS
        if reading.values.get(key.name) is not None
    }
    given = EnvConfig(recorder, reading.values.get("mem_reuse"))
    return given, [*document.problems, *reading.problems]
