"""Whether what a page shows is what was printed.

Words and whole numbers must be the same. Decimal fractions may differ by one percent, as they do
between machines; times, sizes, processes, ports, tokens and names of runs are not compared. `…`
stands for anything within a line, and alone on a line for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MASKS = (
    (re.compile(r"\b([\w.]+)-\d{8}-\d{6}-[0-9a-f]{6,8}\b"), r"\1-ID"),
    (re.compile(r"\btoken=[\w-]+"), "token=TOKEN"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\bprocess \d+"), "process PID"),
    (re.compile(r"(?<=\.)1\d{15}(?=\.)"), "TIME"),
    (re.compile(r"\b\d+:\d{15}\b"), "PID:THREAD"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d(\.\d+)*"), "TIME"),
    (re.compile(r"\b[\d,.]+ (?:µs|ms|s|min|h|days?)\b"), "TIME"),
    (re.compile(r"\b[\d,.]+ (?:kB|KiB|MB|MiB|GB|GiB)\b"), "SIZE"),
)
_FRACTION = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")
_ANY = "…"


def masked(text: str) -> str:
    """A text without what is never the same twice."""
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """The first line that is not as shown; nothing if all are."""
    reached = 0
    places = {0}
    for number, line in enumerate(shown):
        if line.strip() == _ANY:
            places = {later for place in places for later in range(place, len(printed) + 1)}
            continue
        places = {p + 1 for p in places if p < len(printed) and same(line, printed[p])}
        if not places:
            came = printed[reached] if reached < len(printed) else "nothing"
            return f"line {number + 1} is shown as\n{line}\nbut there came\n{came}"
        reached = min(places)
    if len(printed) in places:
        return ""
    return f"after what is shown there came\n{printed[min(places)]}"


def missing(shown: Sequence[str], printed: Sequence[str]) -> str:
    """The first line of an excerpt that was not printed after those before it."""
    rest = iter(printed)
    for line in shown:
        if not any(same(line, other) for other in rest):
            return line
    return ""


def wider(shown: str, printed: str) -> bool:
    """Whether a line has the words of a narrower one, in their order and perhaps with others."""
    words = [".*".join(map(re.escape, word.split(_ANY))) for word in masked(shown).split()]
    return re.search(r"\s(?:.*\s)?".join(words), masked(printed)) is not None


def same(shown: str, printed: str) -> bool:
    """Whether two lines agree."""
    shown, printed = masked(shown).rstrip(), masked(printed).rstrip()
    if shown == printed:
        return True
    match = re.fullmatch(_pattern(shown), printed)
    if match is None:
        return False
    numbers = zip(_FRACTION.findall(_plain(shown)), match.groups(), strict=True)
    return all(_near(float(one), float(other)) for one, other in numbers)


def _plain(shown: str) -> str:
    """A line without numbers that go on in a `…`."""
    return re.sub(r"-?[\d.]*…", _ANY, shown)


def _pattern(shown: str) -> str:
    """A line as a regular expression, with a group for each fraction."""
    parts = []
    at = 0
    for found in re.finditer(rf"(-?[\d.]*){_ANY}|{_FRACTION.pattern}", shown):
        parts.append(_spaced(shown[at : found.start()]))
        is_any = found.group().endswith(_ANY)
        parts.append(f"{re.escape(found[1])}.*" if is_any else f"({_FRACTION.pattern})")
        at = found.end()
    return "".join([*parts, _spaced(shown[at:])])


def _spaced(text: str) -> str:
    """Text in which runs of blanks may be of another length, as beside a number they are."""
    return re.sub(r"(?:\\ )+", lambda found: " +" if len(found[0]) > 2 else " ", re.escape(text))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 0.01 * max(abs(one), abs(other)) + 1e-9
