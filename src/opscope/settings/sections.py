"""JSON configs made of sections and keys: one registry says what is allowed, one loop reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscope.errors import MISSING, Problem
from opscope.settings.checks import ValueCheck, alternatives, checked, did_you_mean, kind


@dataclass(frozen=True)
class SettingKey:
    """One key of a section; a `default` of MISSING makes it required."""

    section: str
    name: str
    check: ValueCheck
    default: Any = MISSING
    status: str = "now"

    @property
    def dotted(self) -> str:
        """The key as problems and docs name it."""
        return f"{self.section}.{self.name}"


@dataclass
class CheckedContent:
    """The content of a file: checked values (or defaults) by key name, and everything wrong."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, key: str, value: object, message: str) -> None:
        """Add something that is wrong at a key."""
        self.problems.append(Problem(self.file, key, value, message))


def read_sections(
    file: str, data: Mapping[str, Any], keys: Sequence[SettingKey], required: Iterable[str] = ()
) -> CheckedContent:
    """Read every key of the registry from a file's data."""
    reading = CheckedContent(file)
    sections = list(dict.fromkeys(key.section for key in keys))
    _report_unknown_sections(reading, data, keys, sections)
    for section in sections:
        mine = [key for key in keys if key.section == section]
        table = _table(reading, data.get(section, MISSING), section, section in required)
        if table is None:
            reading.values.update({key.name: key.default for key in mine})
            continue
        _report_unknown_keys(reading, table, section, keys)
        for key in mine:
            _read_key(reading, table, key)
    return reading


def _table(
    reading: CheckedContent, value: Any, section: str, required: bool
) -> dict[str, Any] | None:
    if value is MISSING:
        if required:
            reading.problem(section, MISSING, "is missing; this section is required")
        return None
    if not isinstance(value, dict):
        reading.problem(section, value, f"must be an object, {{ ... }}, not {kind(value)}")
        return None
    return value


def _read_key(reading: CheckedContent, table: Mapping[str, Any], key: SettingKey) -> None:
    value = table.get(key.name, MISSING)
    if value is MISSING:
        reading.values[key.name] = key.default
        if key.default is MISSING:
            reading.problem(key.dotted, MISSING, "is missing; this key is required")
        return
    reading.given.add(key.name)
    result, problems = checked(key.check, value, reading.file, key.dotted)
    reading.problems += problems
    if not problems:
        reading.values[key.name] = result


def _report_unknown_sections(
    reading: CheckedContent,
    data: Mapping[str, Any],
    keys: Sequence[SettingKey],
    sections: Sequence[str],
) -> None:
    for name in data:
        if name not in sections:
            hint = did_you_mean(name, sections, cutoff=0.8)
            allowed = f"unknown section{hint}; allowed are {alternatives(sections)}"
            reading.problem(name, MISSING, _home_of(name, keys) or allowed)


def _report_unknown_keys(
    reading: CheckedContent, table: Mapping[str, Any], section: str, keys: Sequence[SettingKey]
) -> None:
    known = [key.name for key in keys if key.section == section]
    for name, value in table.items():
        if name not in known:
            hint = did_you_mean(name, known) or did_you_mean(name, (key.name for key in keys))
            message = _home_of(name, keys) or f"unknown key{hint}"
            reading.problem(f"{section}.{name}", value, message)


def _home_of(name: str, keys: Sequence[SettingKey]) -> str:
    """Say what there is to say of a known key in the wrong place, or nothing."""
    homes = [key.section for key in keys if key.name == name]
    return f"is in the wrong place; it belongs in {homes[0]}" if homes else ""
