"""Conditions written as text over the statistics of a value: `max > 10 and zero_share < 0.5`.

A grammar of its own, read by recursive descent: nothing of a text is ever executed. Comparisons may
be chained, `and`, `or` and `not` join them; `+ - * /`, `abs`, `sqrt`, `log10` and parentheses make
numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opscope.errors import OpscopeError
from opscope.judge.measures import abs_mean, mean
from opscope.judge.numbers import Flags, Floats, NumberColumns
from opscope.judge.outcome import CHECKED, Measured
from opscope.settings.checks import did_you_mean

MOST_CHARACTERS = 1000
MOST_DEPTH = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<sign><=|>=|==|!=|[-+*/()<>]))"
)
_COMPARISONS: dict[str, Callable[[Floats, Floats], Flags]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "log10": np.log10,
}
_WORDS = ("and", "or", "not")


def _std(n: NumberColumns) -> Floats:
    finite = np.sqrt(np.maximum(n.l2**2 / n.finite - n.mean**2, 0.0))
    return np.where(n.infinite > 0, np.inf, finite)


def _existing(measured: Measured) -> Floats:
    return np.where(measured.reason == CHECKED, measured.actual, np.nan)


def _l2(n: NumberColumns) -> Floats:
    return np.where(n.infinite > 0, np.inf, n.l2)


NAMES: dict[str, Callable[[NumberColumns], Floats]] = {
    "min": lambda n: n.min,
    "max": lambda n: n.max,
    "mean": lambda n: _existing(mean(n)),
    "mean_abs": lambda n: _existing(abs_mean(n)),
    "std": _std,
    "l2": _l2,
    "range": lambda n: n.max - n.min,
    "count": lambda n: n.count,
    "nan": lambda n: n.nan,
    "inf": lambda n: n.infinite,
    "posinf": lambda n: n.posinf,
    "neginf": lambda n: n.neginf,
    "zero": lambda n: n.zero,
    "zero_share": lambda n: n.zero / n.count,
    "nan_share": lambda n: n.nan / n.count,
    "inf_share": lambda n: n.infinite / n.count,
}
"""The statistics an expression may ask for: NaN is left out, infinities take part; shares are of
all elements, from 0 to 1."""

NEEDS: dict[str, tuple[str, ...]] = {
    "std": ("l2", "mean", "nan", "posinf", "neginf"),
    "range": ("min", "max"),
    "inf": ("posinf", "neginf"),
    "zero_share": ("zero",),
    "nan_share": ("nan",),
    "inf_share": ("posinf", "neginf"),
    "count": (),
}
"""The columns a row must have for a statistic, if not just that of its name."""

_Number = Callable[[NumberColumns], Floats]
_Truth = Callable[[NumberColumns], Flags]


@dataclass(frozen=True)
class Expression:
    """An expression that was understood."""

    text: str
    names: tuple[str, ...]
    """The statistics it asks for, in the order of the text."""
    _truth: _Truth

    def holds(self, n: NumberColumns) -> Flags:
        """Tell for each value whether it is true; a comparison with a missing number is not."""
        with np.errstate(all="ignore"):
            return self._truth(n)

    def actual(self, n: NumberColumns) -> dict[str, Floats]:
        """The numbers it asks for."""
        with np.errstate(all="ignore"):
            return {name: NAMES[name](n) for name in self.names}


def looks_like_expression(text: str) -> bool:
    """Tell whether a text is meant as an expression: it compares something."""
    return any(sign in text for sign in "<>") or "==" in text or "!=" in text


def parse_expression(text: str) -> Expression:
    """Understand a text, or say where and why it makes no sense.

    >>> parse_expression("max > 10 and zero_share < 0.5").names
    ('max', 'zero_share')
    """
    return _Parser(text).expression()


def parse_number(text: str) -> Callable[[NumberColumns], Floats]:
    """Understand a text that makes a number of statistics, such as `max - min`."""
    return _Parser(text).number()


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise OpscopeError(f"an expression has at most {MOST_CHARACTERS} characters")
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self._names: dict[str, None] = {}

    def expression(self) -> Expression:
        truth = self._or()
        if self._at < len(self._tokens):
            raise self._problem(f"{self._now!r} is not expected")
        return Expression(self._text.strip(), tuple(self._names), truth)

    def number(self) -> _Number:
        found = self._sum()
        if self._at < len(self._tokens):
            raise self._problem(f"{self._now!r} is not expected")
        return found

    @property
    def _now(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _problem(self, what: str) -> OpscopeError:
        ended = self._at >= len(self._tokens)
        place = "at the end" if ended else f"at character {self._tokens[self._at][1] + 1}"
        return OpscopeError(f"the expression cannot be read {place}: {what}")

    def _take(self, *words: str) -> str:
        """The next token if it is one of these, else nothing."""
        if self._now and self._now in words:
            self._at += 1
            return self._tokens[self._at - 1][0]
        return ""

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._problem(f"it is nested more than {MOST_DEPTH} deep")

    # ------------------------------------------------------------------ what is true

    def _or(self) -> _Truth:
        found = self._and()
        while self._take("or"):
            found = _either(found, self._and())
        return found

    def _and(self) -> _Truth:
        found = self._not()
        while self._take("and"):
            found = _both(found, self._not())
        return found

    def _not(self) -> _Truth:
        self._deeper()
        try:
            if self._take("not"):
                inner = self._not()
                return lambda n: ~inner(n)
            return self._in_brackets() or self._comparison()
        finally:
            self._depth -= 1

    def _in_brackets(self) -> _Truth | None:
        """A truth in parentheses; they may as well be around a number, which is tried next."""
        start, names = self._at, dict(self._names)
        if self._take("("):
            try:
                found = self._or()
                if self._take(")") and self._now not in (*_COMPARISONS, *_ARITHMETIC):
                    return found
            except OpscopeError as error:
                if not self._is_number_at(start):
                    raise error
        self._at, self._names = start, names
        return None

    def _is_number_at(self, start: int) -> bool:
        """Tell whether the parentheses that begin here hold no comparison."""
        depth = 0
        for token, _ in self._tokens[start:]:
            depth += (token == "(") - (token == ")")
            if depth == 0:
                return True
            if token in _COMPARISONS or token in _WORDS:
                return False
        return True

    def _comparison(self) -> _Truth:
        left, sign = self._sum(), self._take(*_COMPARISONS)
        if not sign:
            raise self._problem("a comparison (<, <=, >, >=, ==, !=) is expected")
        found: _Truth | None = None
        while sign:
            right = self._sum()
            one = _compared(left, _COMPARISONS[sign], right)
            found = one if found is None else _both(found, one)
            left, sign = right, self._take(*_COMPARISONS)
        assert found is not None
        return found

    # ------------------------------------------------------------------ numbers

    def _sum(self) -> _Number:
        found = self._product()
        while sign := self._take("+", "-"):
            found = _computed(found, _ARITHMETIC[sign], self._product())
        return found

    def _product(self) -> _Number:
        found = self._factor()
        while sign := self._take("*", "/"):
            found = _computed(found, _ARITHMETIC[sign], self._factor())
        return found

    def _factor(self) -> _Number:
        self._deeper()
        try:
            if self._take("-"):
                inner = self._factor()
                return lambda n: -inner(n)
            if self._take("("):
                return self._closed(self._sum())
            return self._word_or_number()
        finally:
            self._depth -= 1

    def _closed(self, found: _Number) -> _Number:
        if not self._take(")"):
            raise self._problem("a ) is missing")
        return found

    def _word_or_number(self) -> _Number:
        token = self._now
        if token in _FUNCTIONS:
            self._at += 1
            if not self._take("("):
                raise self._problem(f"{token} needs ( ) around its number")
            return _applied(_FUNCTIONS[token], self._closed(self._sum()))
        if token in NAMES:
            self._at += 1
            self._names[token] = None
            return NAMES[token]
        if token and (token[0].isdigit() or token[0] == "."):
            self._at += 1
            return _constant(float(token))
        raise self._problem(_unexpected(token))


def tokens(text: str) -> list[tuple[str, int]]:
    """The words and signs of a text, each with where it begins."""
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            problem = f"{text[at]!r} has no meaning here"
            raise OpscopeError(
                f"the expression cannot be read at character {at + 1}: {problem}{_hint(text[at])}"
            )
        found.append((match.group(match.lastgroup or 0), match.start(match.lastgroup or 0)))
        at = match.end()
    return found


def _hint(sign: str) -> str:
    return {"=": "; write == to compare", "&": "; write and", "|": "; write or"}.get(sign, "")


def _unexpected(token: str) -> str:
    if not token:
        return "a number or a statistic is missing"
    if token.isidentifier() and token not in _WORDS:
        from opscope.stats import extra

        if token in extra.names():
            return f"{token} is an extra statistic; expressions are about those of every row"
        hint = did_you_mean(token, NAMES)
        return f"{token} is no statistic{hint}; there are {', '.join(NAMES)}"
    return f"a number or a statistic is expected, not {token!r}"


def _constant(value: float) -> _Number:
    if not math.isfinite(value):
        raise OpscopeError("the expression has a number that is too large")
    return lambda n: np.full(len(n), value)


def _computed(left: _Number, how: Callable[[Floats, Floats], Floats], right: _Number) -> _Number:
    return lambda n: how(left(n), right(n))


def _applied(how: Callable[[Floats], Floats], inner: _Number) -> _Number:
    return lambda n: how(inner(n))


def _compared(left: _Number, how: Callable[[Floats, Floats], Flags], right: _Number) -> _Truth:
    def truth(n: NumberColumns) -> Flags:
        a, b = left(n), right(n)
        return how(a, b) & ~np.isnan(a) & ~np.isnan(b)

    return truth


def _both(left: _Truth, right: _Truth) -> _Truth:
    return lambda n: left(n) & right(n)


def _either(left: _Truth, right: _Truth) -> _Truth:
    return lambda n: left(n) | right(n)
