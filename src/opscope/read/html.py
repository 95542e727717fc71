"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def run_table(facts: Sequence[tuple[str, object]], hits: Sequence[Sequence[object]]) -> str:
    """A run: what is known of it, and its first hits."""
    shown = table(("run", ""), facts)
    if hits:
        shown += table(("step", "rank", "watchpoint", "value", "line", "what"), hits[:_HITS])
    if len(hits) > _HITS:
        shown += f"<p>and {counted(len(hits) - _HITS, 'more hit')}</p>"
    return shown
