"""The verdict of a run as one HTML file, to send or to keep: no scripts, nothing loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from opscope.escapes import escaped
from opscope.read.reader import Reader
from opscope.views.hit_list import verdict
from opscope.views.rank_view import RankView
from opscope.views.strip import strip

if TYPE_CHECKING:
    from opscope.views.hit_answers import Verdict

_AROUND = 4
"""Lines of source before and after the one."""
_WIDTH, _HEIGHT = 720, 110
_MOST_GROUPS = 100
_STYLE = """
:root { color-scheme: light dark; --ink: #1b2026; --ground: #f3f5f7; --panel: #fff; --line: #dfe3e8;
  --faint: #6b7580; --bad: #cf1130; --accent: #0b6bcb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ed; --ground: #0e1216; --panel: #151a20;
  --line: #29313a; --faint: #8a949f; --bad: #ff6172; --accent: #5aa9f8; } }
body { margin: 0 auto; padding: 24px; max-width: 920px; color: var(--ink);
  background: var(--ground); font: 14px/1.5 system-ui, sans-serif; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 16px; margin: 14px 0; overflow-x: auto; }
h1 { font-size: 20px; } h2 { font-size: 13px; color: var(--faint); margin: 0 0 6px; }
.wrong { color: var(--bad); } .faint { color: var(--faint); }
pre, code, td { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12.5px; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre span { display: block; }
.at { background: color-mix(in srgb, var(--bad) 18%, transparent); }
table { border-collapse: collapse; } td, th { padding: 2px 12px 2px 0; text-align: left; }
polyline { fill: none; stroke: var(--accent); stroke-width: 1.5; } .mark { stroke: var(--bad); }
"""


def html_report(reader: Reader) -> str:
    """The report of all ranks of a run, those with hits first."""
    views = [RankView(reader, rank) for rank in reader.ranks]
    views.sort(key=lambda view: (not view.hits, view.rank))
    name = reader.recording.path.resolve().name
    parts = [_of_rank(view, len(views) > 1) for view in views if view.hits] or [
        _of_rank(view, len(views) > 1) for view in views[:1]
    ]
    title = f"{name} · opscope"
    state = f"{reader.recording.state} · {reader.recording.started}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{_text(title)}</title>'
        f"<style>{_STYLE}</style>\n<body><h1>{_text(name)}</h1>"
        f'<p class="faint">{_text(state)}</p>\n'
        f"{''.join(parts)}</body></html>\n"
    )


def _of_rank(view: RankView, several: bool) -> str:
    found = verdict(view)
    rank = f"<h2>rank {view.rank}</h2>" if several else ""
    style = ' class="wrong"' if found["hits"] else ""
    parts = [f"<section>{rank}<b{style}>{_text(found['sentence'])}</b></section>"]
    if found["text"]:
        parts.append(
            f"<section><h2>The story</h2><pre>{_text(chr(10).join(found['text']))}</pre></section>"
        )
    parts += [_source(view, found), _curves(view, found), _groups(found)]
    return "\n".join(filter(None, parts))


def _source(view: RankView, found: Verdict) -> str:
    """The lines around the one where it began."""
    where = str((found["story"] or {}).get("where") or "")
    file, _, number = where.rpartition(":")
    if not number.isdigit():
        return ""
    lines = _lines(view, file)
    at = int(number) - 1
    if not 0 <= at < len(lines):
        return ""
    first = max(0, at - _AROUND)
    rows = [
        f"<span{' class=at' if place == at else ''}>{place + 1:5}  {_text(lines[place])}</span>"
        for place in range(first, min(len(lines), at + _AROUND + 1))
    ]
    return f"<section><h2>{_text(where)}</h2><pre>{''.join(rows)}</pre></section>"


def _lines(view: RankView, file: str) -> Sequence[str]:
    found = view.reader.recording.source(file)
    return found.splitlines() if isinstance(found, str) else found


def _curves(view: RankView, found: Verdict) -> str:
    points = strip(view, 400)
    drawn = [
        _curve(name, points["steps"], series, found["step"])
        for name, series in (("loss", points["loss"]), ("gradient norm", points["gradient_norm"]))
    ]
    return "".join(drawn)


def _curve(name: str, steps: Sequence[int], series: Sequence[Any], mark: int | None) -> str:
    """One number over the steps, with a line at the step of the verdict."""
    pairs = [
        (step, float(value))
        for step, value in zip(steps, series, strict=True)
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    if len(pairs) < 2:
        return ""
    low, high = min(v for _, v in pairs), max(v for _, v in pairs)
    first, last = steps[0], max(steps[-1], mark or 0)
    wide, high_up = _WIDTH / max(1, last - first), (_HEIGHT - 12) / ((high - low) or 1)
    dots = (
        f"{(step - first) * wide:.1f},{_HEIGHT - 6 - (value - low) * high_up:.1f}"
        for step, value in pairs
    )
    line = " ".join(dots)
    x = ((mark or 0) - first) * wide
    at = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'
    return (
        f"<section><h2>{name}: {low:.4g} … {high:.4g}, steps {first} to {last}</h2>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" height="{_HEIGHT}" '
        f'preserveAspectRatio="none"><polyline points="{line}"/>{at if mark is not None else ""}'
        "</svg></section>"
    )


def _groups(found: Verdict) -> str:
    rows = [
        "<tr>"
        + "".join(
            f"<td>{_text(str(cell))}</td>"
            for cell in (
                group["label"],
                _span(group["first_step"], group["last_step"]),
                group["count"],
                group["message"],
                group["name"],
                group["where"],
            )
        )
        + "</tr>"
        for group in found["groups"][:_MOST_GROUPS]
    ]
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("", "step", "hits", "what", "value", "line"))
    return f"<section><h2>All hits</h2><table><tr>{head}</tr>{''.join(rows)}</table></section>"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _text(text: str) -> str:
    """A text as HTML that shows it and does nothing else."""
    return escape("\n".join(escaped(line) for line in text.split("\n")))
