"""Checks JSON objects of files: every field has its type and its range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from opscope.errors import OpscopeError
from opscope.rundir.jsonlines import LineTail

T = TypeVar("T")
SLOTS = 1 << 16
"""No operator has so many inputs or outputs."""
NODES = 1 << 24
"""No run has so many nodes."""
CALLS = 1 << 26
"""No step has so many calls."""
IDS = 1 << 32
SMALL = 1 << 31
_SHOWN = 60
_LONGEST = 1 << 20
_DIGITS = 25


class DamagedError(OpscopeError):
    """A file says what cannot be; the text names the file and the place in it."""


class Fields:
    """A JSON object and where it stands; what is asked for is there and as it should be."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: dict[str, Any], place: str) -> None:
        self._data = data
        self._place = place

    @property
    def data(self) -> dict[str, Any]:
        """The object as it stands in the file."""
        return self._data

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def integer(self, name: str, low: int = 0, below: int = IDS) -> int:
        """A whole number from `low` on and below `below`."""
        value = self._data.get(name)
        if type(value) is str and len(value) < _DIGITS and value.lstrip("-").isdecimal():
            value = int(value)  # as those beyond 2**53 are written
        if type(value) is not int:
            self.refuse(name, "must be a whole number")
        if not low <= value < below:
            self.refuse(name, f"must be below {below}" if value >= low else f"must be >= {low}")
        return value

    def node(self, name: str) -> int:
        """The id of a node."""
        return self.integer(name, below=NODES)

    def node_or_none(self, name: str) -> int | None:
        """The id of a node, or None for none."""
        return None if self._data.get(name) is None else self.node(name)

    def number(self, name: str) -> float:
        """A number; those that JSON does not have stand there as text."""
        value = self._data.get(name)
        if type(value) not in (int, float) and not (type(value) is str and len(value) < _DIGITS):
            self.refuse(name, "must be a number")
        try:
            return float(value)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            self.refuse(name, "must be a number")

    def text(self, name: str, default: str | None = None) -> str:
        """Text, of no outrageous length; what may be absent has a default."""
        value = self._data.get(name, default)
        if type(value) is not str:
            self.refuse(name, "must be text")
        if len(value) > _LONGEST:
            self.refuse(name, f"must not be longer than {_LONGEST}")
        return value

    def several(self, names: Callable[[dict[str, Any]], tuple[Any, ...]]) -> tuple[str, ...] | None:
        """Some texts at once, by an `itemgetter`; None if one of them is not as it should be."""
        try:
            values = names(self._data)
        except KeyError:
            return None
        for value in values:
            if type(value) is not str or len(value) > _LONGEST:
                return None
        return values

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false; what may be absent has a default."""
        value = self._data.get(name, default)
        if type(value) is not bool:
            self.refuse(name, "must be true or false")
        return value

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self._data.get(name)
        if type(value) is not list:
            self.refuse(name, "must be a list")
        return value

    def integers(self, name: str, below: int = IDS, low: int = 0) -> list[int]:
        """A list of whole numbers."""
        values = self.items(name)
        if not all(type(value) is int and low <= value < below for value in values):
            self.refuse(name, f"must be a list of whole numbers below {below}")
        return values

    def objects(self, name: str, most: int = IDS) -> list[Fields]:
        """A list of objects, `most` at the most."""
        values = self.items(name)
        if len(values) > most or not all(type(value) is dict for value in values):
            self.refuse(name, f"must be a list of at most {most} objects")
        return [Fields(value, f"{self._place}: {name}") for value in values]

    def within(self, name: str, value: dict[str, Any]) -> Fields:
        """An object inside this one."""
        return Fields(value, f"{self._place}: {name}")

    def mapping(self, name: str) -> dict[str, Any]:
        """An object of anything."""
        value = self._data.get(name)
        if type(value) is not dict:
            self.refuse(name, "must be an object")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts."""
        values = self.mapping(name)
        if not all(type(value) is str for value in values.values()):
            self.refuse(name, "must be an object of texts")
        return values

    def numbers(self, name: str) -> dict[str, float]:
        """An object of numbers."""
        values = self.mapping(name)
        inner = Fields(values, f"{self._place}: {name}")
        return {key: inner.number(key) for key in values}

    def refuse(self, name: str, message: str) -> NoReturn:
        """Say what is wrong with a field."""
        if name not in self._data:
            raise DamagedError(f'{self._place}: "{name}" is missing')
        raise DamagedError(f'{self._place}: "{name}" is {shown(self._data[name])}, {message}')


def checked_lines(path: Path, make: Callable[[Fields], T]) -> Iterator[T]:
    """Return what `make` makes of each line of a file; leave out damaged ones, and say so."""
    return checked_tail(LineTail(path), make)


def checked_tail(tail: LineTail, make: Callable[[Fields], T]) -> Iterator[T]:
    """The same of the lines that are new."""
    for number, value in tail.numbered():
        try:
            made = make(Fields(value, f"line {number}"))
        except DamagedError as error:
            tail.complaints.add(str(error))
        else:
            yield made


def shown(value: Any) -> str:
    """A value as JSON, not all of it if it is long."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    try:
        text = json.dumps(value[:_SHOWN] if isinstance(value, str) else value)
    except ValueError:  # a number of thousands of digits
        return "a very long number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
