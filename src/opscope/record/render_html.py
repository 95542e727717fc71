"""A report as one page that needs nothing else: `report.html`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from opscope.record.render_text import in_words, rank_lines, source_line, step_line, took

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1c2024; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem } h3 { font-size: 1rem }
.cause { font-size: 1.1rem; padding: .8rem 1rem; background: #fdecea;
  border-left: 4px solid #b3261e }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .2rem .6rem;
  border-bottom: 1px solid #e3e6e8; font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
tr.flight td { background: #fff4d6; font-weight: 600 } tr.raised td { background: #fdecea }
pre, code { font: 13px/1.45 ui-monospace, monospace } pre { background: #f5f6f7; padding: .8rem;
  overflow-x: auto }
svg { max-width: 100%; height: auto; background: #f5f6f7 }
@media (prefers-color-scheme: dark) { body { background: #16181a; color: #e6e8ea }
  .cause, tr.raised td { background: #4a1f1b } tr.flight td { background: #4a3d14 }
  pre, svg { background: #22262a } td, th { border-color: #34393e } }
"""


def render_html(report: Mapping[str, Any], stacks: Mapping[int, str]) -> str:
    """The whole page."""
    body = "\n".join(_body(report, stacks))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>What this training left behind</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _body(report: Mapping[str, Any], stacks: Mapping[int, str]) -> Iterator[str]:
    yield "<h1>What this training left behind</h1>"
    yield f'<p class="cause">{escape(report["cause_text"])}</p>'
    if len(report["ranks"]) > 1 or report["absent"]:
        lines = "".join(f"<li>{escape(line)}</li>" for line in rank_lines(report))
        yield f"<h2>Ranks</h2><ul>{lines}</ul>"
    for place, rank in enumerate(report["ranks"]):
        yield from _rank(rank, stacks.get(place, ""))


def _rank(rank: Mapping[str, Any], stacks: str) -> Iterator[str]:
    yield f"<h2>Rank {rank['rank']}: step {rank['step']}, process {rank['pid']}</h2>"
    yield f"<p>{escape(rank['cause_text'])}</p>"
    if rank["last_op"]:
        yield f"<p><b>{escape(in_words(rank['last_op']))}</b></p>"
    if rank["source"]:
        yield f"<p><code>{escape(source_line(rank['source']))}</code></p>"
    yield "<h3>The last operators</h3>"
    yield from _operators(rank["last_operators"])
    yield from _memory(rank["steps"])
    yield "<h3>The last steps</h3><ul>"
    yield from (f"<li>{escape(step_line(step))}</li>" for step in rank["steps"][-12:])
    yield "</ul>"
    yield from _batch(rank["steps"])
    if rank["exception"]:
        yield f"<h3>The exception</h3><pre>{escape(rank['exception']['traceback'])}</pre>"
    if stacks:
        yield f"<h3>Stacks of all threads</h3><pre>{escape(stacks[:20000])}</pre>"
    yield from _facts(rank["facts"])


def _operators(operators: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "<table><tr><th>#<th>step<th>operator<th>phase<th>thread<th>source<th>took</tr>"
    for each in operators:
        kind = "raised" if each["raised"] else "flight" if each["seconds"] is None else ""
        source = each["source"]
        where = f"{source['file'].rpartition('/')[2]}:{source['line']}" if source else ""
        cells = (
            *(each["sequence"], each["step"], each["name"], each["phase"], each["thread"], where),
            took(each).strip("*"),
        )
        row = "".join(f"<td>{escape(str(cell))}" for cell in cells)
        yield f'<tr class="{kind}">{row}</tr>'
    yield "</table>"


def _memory(steps: list[Mapping[str, Any]]) -> Iterator[str]:
    """The memory of the last steps as a curve."""
    for key, title in (("allocated", "memory of the GPU"), ("rss", "memory of the process")):
        values = [int(step[key]) for step in steps if step.get(key) is not None]
        if len(values) < 2:
            continue
        low, high = min(values), max(values)
        span, width, height = max(high - low, 1), 600, 80
        points = " ".join(
            f"{place * width / (len(values) - 1):.1f},{height - (v - low) * height / span:.1f}"
            for place, v in enumerate(values)
        )
        yield (
            f"<h3>{title}: {low / 2**20:.0f} to {high / 2**20:.0f} MiB</h3>"
            f'<svg viewBox="-4 -4 {width + 8} {height + 8}" width="{width}" role="img" '
            f'aria-label="{title} over the last steps"><polyline points="{points}" fill="none" '
            'stroke="#2f6fdb" stroke-width="2"/></svg>'
        )


def _batch(steps: list[Mapping[str, Any]]) -> Iterator[str]:
    batch = next((s["batch"] for s in reversed(steps) if s.get("batch")), None)
    if batch:
        rows = "".join(
            f"<tr><td>{escape(str(t['name']))}<td>{escape(str(t['dtype']))}<td>"
            f"{escape(str(t['shape']))}<td>{escape(str(t.get('digest', '')))}</tr>"
            for t in batch
        )
        yield "<h3>The last batch</h3><table><tr><th>tensor<th>dtype<th>shape<th>digest</tr>"
        yield f"{rows}</table>"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {value}" for name, value in facts.get("versions", {}).items())
    yield "<h3>Program</h3>"
    yield f"<p><code>{escape(' '.join(facts.get('command', [])))}</code></p>"
    yield f"<p>{escape(versions)}; git {escape(str(facts.get('git') or 'unknown'))}</p>"
    variables = "\n".join(f"{k}={v}" for k, v in facts.get("environment", {}).items())
    yield f"<details><summary>environment</summary><pre>{escape(variables)}</pre></details>"
