"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from opscope.wording import counted

_HITS = 20


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; whatever is in it is text."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def run_table(facts: Sequence[tuple[str, object]], hits: Sequence[Mapping[str, object]]) -> str:
    """A run: what is known of it, and its first hits."""
    return table(("run", ""), facts) + (hits_table(hits) if hits else "")


def hits_table(hits: Sequence[Mapping[str, object]]) -> str:
    """The first of some hits, as they stand in a file."""
    keys = ("step", "rank", "label", "name", "where", "message")
    rows = [[hit.get(key, "") for key in keys] for hit in hits[:_HITS]]
    shown = table(("step", "rank", "watchpoint", "value", "line", "what"), rows)
    if len(hits) > _HITS:
        shown += f"<p>and {counted(len(hits) - _HITS, 'more hit')}</p>"
    return shown
