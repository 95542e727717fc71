"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from opscope.read.hit_rows import GROUP_COLUMNS, advice_of, grouped
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


def run_table(facts: Sequence[tuple[str, object]], hits: Sequence[Mapping[str, Any]]) -> str:
    """A run: what is known of it, and its first hits."""
    return table(("run", ""), facts) + (hits_table(hits) if hits else "")


def hits_table(hits: Sequence[Mapping[str, Any]]) -> str:
    """Some hits as they stand in a file, the first kinds of them, with what helps below."""
    groups = grouped(hits)
    shown = groups[:_HITS]
    parts = [table(GROUP_COLUMNS, [group.row() for group in shown])]
    parts += [f"<p>{escape(line)}</p>" for line in advice_of(group.first for group in shown)]
    if len(groups) > len(shown):
        more = counted(len(groups) - len(shown), "more kind of hit", "more kinds of hits")
        parts.append(f"<p>and {more}</p>")
    return "".join(parts)
