"""Checks of single values: each returns the value in its final type or raises `InvalidError`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from opscope.errors import MISSING, Problem

ValueCheck = Callable[[Any], Any]


class Item(NamedTuple):
    """One bad element of a list: `suffix` is its place, such as "[2]"."""

    suffix: str
    value: object
    message: str


class InvalidError(ValueError):
    """A value that is not allowed; the message says what is."""

    def __init__(self, message: str, items: Sequence[Item] = ()) -> None:
        super().__init__(message)
        self.items = tuple(items)

    def problems(self, file: str, key: str, value: object) -> list[Problem]:
        """List what is wrong, at the key itself or at its elements."""
        items = self.items or (Item("", value, str(self)),)
        return [Problem(file, key + item.suffix, item.value, item.message) for item in items]


def boolean(value: object) -> bool:
    """A JSON or TOML boolean, nothing that merely looks like one."""
    if not isinstance(value, bool):
        raise InvalidError(f"must be true or false, not {kind(value)}")
    return value


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidError(f"must be a string, not {kind(value)}")
    return value


def integer(low: int, high: int | None = None) -> ValueCheck:
    """A whole number in a range; true and false are not numbers."""
    span = f"of at least {low}" if high is None else f"from {low} to {high}"

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidError(f"must be a whole number {span}, not {kind(value)}")
        if value < low or (high is not None and value > high):
            raise InvalidError(f"must be a whole number {span}")
        return value

    return check


def one_of(*allowed: object) -> ValueCheck:
    """One of a few values, of exactly the same type."""

    def check(value: object) -> object:
        if not is_any(value, allowed):
            raise InvalidError(f"must be {alternatives(allowed)}")
        return value

    return check


def list_of(check: ValueCheck) -> ValueCheck:
    """A list whose elements pass a check, as a tuple without repetitions."""

    def check_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidError(f"must be a list, not {kind(value)}")
        results = [_element(check, index, element) for index, element in enumerate(value)]
        bad = [result for result in results if isinstance(result, Item)]
        if bad:
            raise InvalidError("has bad elements", bad)
        return tuple(dict.fromkeys(results))

    return check_all


def _element(check: ValueCheck, index: int, element: object) -> Any:
    try:
        return check(element)
    except InvalidError as error:
        return Item(f"[{index}]", element, str(error))


def checked(check: ValueCheck, value: object, file: str, key: str) -> tuple[Any, list[Problem]]:
    """The value as a check returns it, or MISSING and what is wrong."""
    try:
        return check(value), []
    except InvalidError as error:
        return MISSING, error.problems(file, key, value)


def is_any(value: object, allowed: Iterable[object]) -> bool:
    """Tell whether a value is among others, where True is not 1 and 1.0 is not 1."""
    return any(type(value) is type(other) and value == other for other in allowed)


def alternatives(values: Iterable[object]) -> str:
    """Values as a person lists them: 0, 1 or 2."""
    shown = [json.dumps(value, ensure_ascii=False) for value in values]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A suggestion to put after "unknown key", or nothing."""
    import difflib  # late: only who has made a mistake needs it

    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    return f' (did you mean "{names[close[0]]}"?)' if close else ""


def kind(value: object) -> str:
    """The type of a value in the words of a JSON file."""
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number with a fraction"),
        (str, "a string"),
        (list, "a list"),
        (tuple, "a list"),
        (dict, "an object"),
        (type(None), "null"),
    )
    return next((name for type_, name in kinds if isinstance(value, type_)), type(value).__name__)
