"""The watchpoints of a run: from a file or a specification, changed, saved."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.errors import MISSING, ConfigError, OpscopeError, Problem
from opscope.judge.catalogue import BY_NAME
from opscope.judge.expressions import looks_like_expression
from opscope.judge.parsing import SELECT_KEYS, parse, spread_parts
from opscope.judge.recommended import everything, recommended, thorough
from opscope.judge.watchpoint import Watchpoint
from opscope.regular import read_regular, why
from opscope.settings.checks import did_you_mean, kind
from opscope.settings.paths import is_file

_SETS = {"recommended": recommended, "thorough": thorough, "everything": everything}
_WORDS = ("none", *_SETS)
_TOP = ("version", "recommended", "watchpoints")
_VERSION = 1
_TEXTS = ("name", "mute", *SELECT_KEYS)
"""Parts of a specification that are text, whatever they look like."""


_PARTS = (*_TEXTS, "enabled")


class WatchSet:
    """Watchpoints by id. `revision` grows with every change."""

    def __init__(self, watchpoints: Iterable[Watchpoint] = ()) -> None:
        self._by_id: dict[int, Watchpoint] = {}
        self.revision = 0
        self._enabled: tuple[int, list[Watchpoint]] = (-1, [])
        # Those with an id of their own come first, so that nobody is given it before.
        listed = list(watchpoints)
        for watchpoint in [w for w in listed if w.id] + [w for w in listed if not w.id]:
            self.add(watchpoint)

    def __iter__(self) -> Iterator[Watchpoint]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, number: int) -> Watchpoint:
        try:
            return self._by_id[number]
        except KeyError:
            there = ", ".join(map(str, self._by_id)) or "none"
            raise OpscopeError(f"there is no watchpoint {number}; there are {there}") from None

    @property
    def enabled(self) -> list[Watchpoint]:
        """Those that are checked."""
        if self._enabled[0] != self.revision:
            self._enabled = self.revision, [each for each in self if each.enabled]
        return self._enabled[1]

    def add(self, watchpoint: Watchpoint) -> Watchpoint:
        """Add one; without an id, or with one that is taken, it gets the next."""
        if not watchpoint.id or watchpoint.id in self._by_id:
            watchpoint = replace(watchpoint, id=max(self._by_id, default=0) + 1)
        self._by_id[watchpoint.id] = watchpoint
        self.revision += 1
        return watchpoint

    def change(self, number: int, **parts: Any) -> Watchpoint:
        """Change parts of one: `enabled`, `name`, `params`, `select` or `mute`; checked."""
        if "id" in parts:
            raise OpscopeError(f"watchpoint {number} keeps its id")
        data = self[number].to_json() | parts
        self._by_id[number] = parse(data, number, "watchpoint", str(number))
        self.revision += 1
        return self._by_id[number]

    def enable(self, number: int, enabled: bool = True) -> Watchpoint:
        """Switch one on or off."""
        return self.change(number, enabled=enabled)

    def mute(self, number: int, *what: str) -> Watchpoint:
        """Leave nodes (names or globs) or source lines alone."""
        return self.change(number, mute=[*self[number].mute, *what])

    def remove(self, number: int) -> None:
        """Take one away."""
        del self._by_id[self[number].id]
        self.revision += 1

    def to_json(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {"version": _VERSION, "watchpoints": [w.to_json() for w in self]}

    def save(self, path: Path | str) -> None:
        """Write a file that `load` reads."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def load(what: str, folder: Path | None = None) -> WatchSet:
    """The watchpoints that `--watch` means: `none`, the name of a set, a file or others.

    >>> [w.text for w in load("TL max_gt=10 scope=*/conv1-*; WO")]
    ['TL max_gt=10', 'WO']
    """
    text = what.strip()
    path = (folder or Path()) / text
    if text not in _WORDS and (text.endswith(".json") or is_file(path)):
        return _from_file(path)
    return _from_spec(text)


def quick(watch: WatchSet) -> WatchSet:
    """Only those watchpoints that are about NaN and Inf; the recommended ones if there are none."""
    found = [watchpoint for watchpoint in watch if watchpoint.condition.nonfinite]
    return WatchSet(found or recommended(quick=True))


def _from_file(path: Path) -> WatchSet:
    try:
        data = json.loads(read_regular(path, follow=True).decode("utf-8"))
    except OSError as error:
        message = f"cannot be read: {why(error)}"
        raise ConfigError([Problem(str(path), "", MISSING, message)]) from None
    except RecursionError:
        raise ConfigError([Problem(str(path), "", MISSING, "is nested too deeply")]) from None
    except ValueError as error:
        raise ConfigError([Problem(str(path), "", MISSING, f"is no JSON: {error}")]) from None
    return from_json(data, str(path))


def from_json(data: Any, file: str) -> WatchSet:
    """The watchpoints in a file's data, or ConfigError with every problem in it."""
    if not isinstance(data, dict):
        message = f"must be an object, {{ ... }}, not {kind(data)}"
        raise ConfigError([Problem(file, "", MISSING, message)])
    problems = [
        Problem(file, key, data[key], f"unknown key{did_you_mean(key, _TOP)}")
        for key in data
        if key not in _TOP
    ]
    if data.get("version", _VERSION) != _VERSION:
        problems.append(Problem(file, "version", data["version"], f"must be {_VERSION}"))
    if not isinstance(data.get("recommended", False), bool):
        message = f"must be true or false, not {kind(data['recommended'])}"
        problems.append(Problem(file, "recommended", data["recommended"], message))
    listed = data.get("watchpoints", [])
    if not isinstance(listed, list):
        problems.append(Problem(file, "watchpoints", listed, f"must be a list, not {kind(listed)}"))
        listed = []
    found = _parse_all(
        file, [(f"watchpoints[{i}]", item) for i, item in enumerate(listed)], problems
    )
    if problems:
        raise ConfigError(problems)
    return _with(found, recommended() if data.get("recommended") else [])


def _with(found: list[Watchpoint], whole: list[Watchpoint]) -> WatchSet:
    """Add the watchpoints of a whole set to those found, which keep their ids."""
    watch = WatchSet(found)
    for watchpoint in whole:
        watch.add(watchpoint)
    return watch


def _from_spec(text: str) -> WatchSet:
    problems: list[Problem] = []
    items: list[tuple[str, Any]] = []
    whole: list[Watchpoint] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        if part in _SETS:
            whole = max(whole, _SETS[part](), key=len)
        elif part != "none":
            items.append((part, _spec_item(part, problems)))
    found = _parse_all("--watch", [item for item in items if item[1] is not None], problems)
    if problems:
        raise ConfigError(problems)
    return _with(found, whole)


def _spec_item(part: str, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        condition, *words = _words(part)
    except ValueError as error:
        problems.append(Problem("--watch", part, MISSING, f"cannot be read: {error}"))
        return None
    if looks_like_expression(part) and condition.upper() not in BY_NAME:
        condition, words = _expression_words(condition, words)
    elif not words and condition not in BY_NAME and condition.upper() not in BY_NAME:
        hint = did_you_mean(condition, [*BY_NAME, *_WORDS])
        message = f"is neither a file nor a condition{hint}"
        problems.append(Problem("--watch", condition, MISSING, message))
        return None
    parts: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            message = "must be written key=value"
            problems.append(Problem("--watch", f"{part}: {word}", MISSING, message))
            return None
        parts[key] = value if key in _TEXTS else _number(value)
    return spread_parts(condition, parts)


def _expression_words(first: str, words: list[str]) -> tuple[str, list[str]]:
    """The words of an expression as one, and those after it that are key=value."""
    parts = [word for word in words if word.partition("=")[0] in _PARTS]
    return " ".join([first, *(word for word in words if word not in parts)]), parts


def _words(part: str) -> list[str]:
    """The words of a specification; quotes hold them together, a backslash is a backslash."""
    lexer = shlex.shlex(part, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    return list(lexer)


def _number(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _parse_all(
    file: str, items: list[tuple[str, Any]], problems: list[Problem]
) -> list[Watchpoint]:
    found: list[Watchpoint] = []
    taken: dict[int, str] = {}
    for key, item in items:
        try:
            watchpoint = parse(item, 0, file, key)
        except ConfigError as error:
            problems += error.problems
            continue
        if watchpoint.id in taken and watchpoint.id:
            message = f"is the id of {taken[watchpoint.id]} as well"
            problems.append(Problem(file, f"{key}.id", watchpoint.id, message))
        taken[watchpoint.id] = key
        found.append(watchpoint)
    return found
