"""The thresholds of an expression: the numbers in it that something is compared with."""

from __future__ import annotations

from typing import NamedTuple

from opscope.judge.expressions import NAMES, parse_expression, tokens

_SIGNS = ("<", "<=", ">", ">=")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ENDS = ("and", "or", "not", "==", "!=", *_SIGNS)


class Threshold(NamedTuple):
    """A number that a person may move: `10` in `max - min > 10`."""

    measured: str
    """The expression that is compared with it, as it stands in the text."""
    sign: str
    """The comparison: `>` if what is above the threshold makes it true."""
    value: float
    start: int
    """The place in the text where the number begins, and where it ends."""
    end: int

    @property
    def above(self) -> bool:
        """True if numbers above it make the comparison true."""
        return self.sign in (">", ">=")


def thresholds(text: str) -> list[Threshold]:
    """The thresholds of an expression, in the order of the text; an error if it makes no sense.

    >>> [(each.measured, each.sign, each.value) for each in thresholds("max > 10 and 0 < std")]
    [('max', '>', 10.0), ('std', '>', 0.0)]
    """
    parse_expression(text)
    found = tokens(text)
    sides = [_sides(found, place) for place, (word, _) in enumerate(found) if word in _SIGNS]
    return [each for each in (_threshold(text, found, *side) for side in sides) if each is not None]


_Tokens = list[tuple[str, int]]


def _sides(found: _Tokens, sign: int) -> tuple[int, int, int]:
    """Return where the left side of a sign begins, the sign is, and the right side ends."""
    first, depth = sign, 0
    while first > 0 and not (depth == 0 and found[first - 1][0] in (*_ENDS, "(")):
        depth += (found[first - 1][0] == ")") - (found[first - 1][0] == "(")
        first -= 1
    last, depth = sign + 1, 0
    while last < len(found) and not (depth == 0 and found[last][0] in (*_ENDS, ")")):
        depth += (found[last][0] == "(") - (found[last][0] == ")")
        last += 1
    return first, sign, last


def _threshold(text: str, found: _Tokens, first: int, sign: int, last: int) -> Threshold | None:
    left, right = found[first:sign], found[sign + 1 : last]
    word = found[sign][0]
    if _is_number(right) and _measures(left):
        return _made(text, left, word, right)
    if _is_number(left) and _measures(right):
        return _made(text, right, _MIRRORED[word], left)
    return None


def _is_number(side: _Tokens) -> bool:
    words = [word for word, _ in side]
    return len(words) == 1 + (words[:1] == ["-"]) and (
        words[-1][0].isdigit() or words[-1][0] == "."
    )


def _measures(side: _Tokens) -> bool:
    return any(word in NAMES for word, _ in side)


def _made(text: str, measured: _Tokens, sign: str, number: _Tokens) -> Threshold:
    start, end = number[0][1], _end(number)
    value = float(text[start:end].replace(" ", ""))
    return Threshold(text[measured[0][1] : _end(measured)], sign, value, start, end)


def _end(side: _Tokens) -> int:
    word, at = side[-1]
    return at + len(word)
