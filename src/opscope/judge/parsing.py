"""Watchpoints from code, files and specifications, with every problem there is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from opscope.errors import MISSING, ConfigError, OpscopeError, Problem
from opscope.judge.catalogue import BY_NAME, CONDITIONS
from opscope.judge.condition import TENSOR, TRAINING, Condition
from opscope.judge.conditions.expression import EXPRESSION, condition_of
from opscope.judge.expressions import looks_like_expression
from opscope.judge.selection import CLASSES, Selection
from opscope.judge.watchpoint import Watchpoint
from opscope.settings.checks import alternatives, did_you_mean, kind

_PERCENTAGES = ("range_percentage_lt", "range_percentage_gt")
_ENDS = ("range_start_inclusive", "range_end_inclusive")
KEYS = ("id", "name", "condition", "params", "select", "enabled", "mute", "arriving")
SELECT_KEYS = ("class", *(f.name for f in fields(Selection) if f.name != "cls"))


def make(condition: str, number: int = 0, **parts: Any) -> Watchpoint:
    """A watchpoint from code: parameters and parts of the selection by name; checked."""
    data = spread_parts(condition, parts)
    return parse(data, number, "watchpoint", "")


def spread_parts(condition: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a watchpoint, sorted into where they stand in a file."""
    data: dict[str, Any] = {"condition": condition}
    for key, value in parts.items():
        if key in ("id", "name", "enabled", "mute", "arriving"):
            data[key] = value
        elif key in SELECT_KEYS or key == "cls":
            data.setdefault("select", {})["class" if key == "cls" else key] = value
        else:
            data.setdefault("params", {})[key] = value
    return data


def parse(data: Any, number: int, file: str, key: str) -> Watchpoint:
    """A watchpoint from a file's data, or ConfigError with every problem in it."""
    reader = _Reader(file, key)
    found = reader.read(data, number)
    if reader.problems or found is None:
        raise ConfigError(reader.problems)
    return found


class _Reader:
    def __init__(self, file: str, key: str) -> None:
        self.file = file
        self.key = key
        self.problems: list[Problem] = []

    def problem(self, key: str, value: object, message: str) -> None:
        where = f"{self.key}.{key}" if self.key and key else self.key or key
        self.problems.append(Problem(self.file, where, value, message))

    def read(self, data: Any, number: int) -> Watchpoint | None:
        if not isinstance(data, dict):
            self.problem("", data, f"must be an object, {{ ... }}, not {kind(data)}")
            return None
        for name in data:
            if name not in KEYS:
                self.problem(name, data[name], f"unknown key{did_you_mean(name, KEYS)}")
        condition = self._condition(data.get("condition", MISSING))
        if condition is None:
            return None
        params = self._params(condition, data.get("params", {}))
        select = self._select(condition, data.get("select", {}))
        found = Watchpoint(number, condition, params, select)
        return self._rest(found, data)

    def _condition(self, value: Any) -> Condition | None:
        if isinstance(value, str) and looks_like_expression(value):
            return self._expression(value)
        if isinstance(value, str) and value.upper() in (EXPRESSION.abbr, EXPRESSION.id.upper()):
            message = "is written as the expression itself, such as max > 10 and zero_share < 0.5"
            self.problem("condition", value, message)
            return None
        if isinstance(value, str) and (value in BY_NAME or value.upper() in BY_NAME):
            return BY_NAME.get(value) or BY_NAME[value.upper()]
        allowed = ", ".join(c.abbr for c in CONDITIONS)
        hint = did_you_mean(str(value), BY_NAME) if isinstance(value, str) else ""
        message = "is missing" if value is MISSING else f"is no condition{hint}"
        self.problem("condition", value, f"{message}; there are {allowed}")
        return None

    def _expression(self, text: str) -> Condition | None:
        try:
            return condition_of(text)
        except OpscopeError as error:
            self.problem("condition", text, str(error))
            return None

    def _params(self, condition: Condition, given: Any) -> dict[str, float]:
        if not isinstance(given, dict):
            self.problem("params", given, f"must be an object, {{ ... }}, not {kind(given)}")
            return {}
        known = {p.name: p for p in condition.parameters}
        params: dict[str, float] = {}
        for name, value in given.items():
            parameter = known.get(name)
            if parameter is None:
                there = alternatives(known) if known else "none"
                hint = did_you_mean(name, known)
                message = f"unknown parameter of {condition.abbr}{hint}; it has {there}"
                self.problem(f"params.{name}", value, message)
            elif _is_number(value, or_flag=name == "equal_nan") and parameter.allows(value):
                params[name] = float(value)
            else:
                self.problem(f"params.{name}", value, f"must be {parameter.allowed}")
        self._check_together(condition, given, params)
        thresholds = {p.name for p in condition.thresholds}
        defaults = condition.defaults
        if thresholds & set(given):  # one threshold was chosen: the others' defaults are off
            defaults = {k: v for k, v in defaults.items() if k not in thresholds}
        return defaults | params

    def _check_together(
        self, condition: Condition, given: Mapping[str, Any], params: Mapping[str, float]
    ) -> None:
        thresholds = [p.name for p in condition.thresholds]
        defaults = any(p.default is not None for p in condition.thresholds)
        if thresholds and not defaults and not set(thresholds) & set(given):
            message = f"{condition.abbr} needs at least one of {', '.join(thresholds)}"
            self.problem("params", MISSING, message)
        if not condition.needs_range:
            return
        percentage = [name for name in _PERCENTAGES if name in given]
        ends = [name for name in _ENDS if name in given]
        if percentage and not ends:
            self.problem("params", MISSING, f"{percentage[0]} needs {' or '.join(_ENDS)} as well")
        if ends and not percentage:
            self.problem("params", MISSING, f"{ends[0]} needs {' or '.join(_PERCENTAGES)} as well")
        start, end = (params.get(name) for name in _ENDS)
        if start is not None and end is not None and start > end:
            self.problem(f"params.{_ENDS[0]}", start, f"must not be above {_ENDS[1]} ({end:g})")

    def _select(self, condition: Condition, given: Any) -> Selection:
        if not isinstance(given, dict):
            self.problem("select", given, f"must be an object, {{ ... }}, not {kind(given)}")
            return Selection()
        parts: dict[str, str] = {}
        for name, value in given.items():
            if name not in SELECT_KEYS:
                message = f"unknown key{did_you_mean(name, SELECT_KEYS)}"
                there = alternatives(SELECT_KEYS)
                self.problem(f"select.{name}", value, f"{message}; a selection has {there}")
            elif not isinstance(value, str) or not value.strip():
                self.problem(f"select.{name}", value, "must be text, not empty")
            else:
                parts["cls" if name == "class" else name] = value
        self._check_class(condition, parts.get("cls", ""))
        try:
            re.compile(parts.get("regex", ""))
        except re.error as error:
            self.problem("select.regex", parts["regex"], f"is no regular expression: {error}")
        return Selection(**parts)

    def _check_class(self, condition: Condition, cls: str) -> None:
        if not cls or cls == condition.target:
            return
        if cls not in CLASSES:
            self.problem("select.class", cls, f"must be {alternatives(CLASSES)}")
        elif condition.target != TENSOR:
            about = "training as a whole" if condition.target == TRAINING else condition.target
            self.problem("select.class", cls, f"{condition.abbr} is about {about}")

    def _rest(self, found: Watchpoint, data: Mapping[str, Any]) -> Watchpoint:
        number, name = data.get("id", found.id), data.get("name", "")
        enabled, mute = data.get("enabled", True), data.get("mute", [])
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            self.problem("id", number, "must be a whole number of at least 0")
            number = found.id
        if not isinstance(name, str):
            self.problem("name", name, f"must be a string, not {kind(name)}")
            name = ""
        if not isinstance(enabled, bool):
            self.problem("enabled", enabled, f"must be true or false, not {kind(enabled)}")
        arriving = data.get("arriving", False)
        if not isinstance(arriving, bool):
            self.problem("arriving", arriving, f"must be true or false, not {kind(arriving)}")
        elif arriving and found.condition.abbr not in ("OO", "LN"):
            self.problem("arriving", arriving, "is for OO and LN; other conditions are literal")
        if isinstance(mute, str):
            mute = [mute]
        if not isinstance(mute, list | tuple) or not all(isinstance(m, str) and m for m in mute):
            self.problem("mute", mute, "must be a list of node names or source lines")
            mute = []
        return replace(
            found,
            id=number,
            name=name,
            enabled=bool(enabled),
            mute=tuple(mute),
            arriving=bool(arriving),
        )


def _is_number(value: object, or_flag: bool) -> bool:
    return isinstance(value, int | float) and (or_flag or not isinstance(value, bool))
