"""The output of `opscope show RUN`: a whole run at a glance."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from opscope.commands.numbers import number
from opscope.commands.output import print_line, print_wrapped
from opscope.commands.plot import plot
from opscope.commands.tables import fitted, print_table
from opscope.read.hit_rows import near
from opscope.wording import counted, duration, typed

_LINES = 40
"""So many scopes of a model are shown."""


def print_overview(
    title: str, found: Mapping[str, Any], run: str, ending: Sequence[str] = ()
) -> None:
    """Print how it went, the curves, the model, what stands out and the hits."""
    print_line(title)
    for line in ending:
        print_wrapped(line)
    print_wrapped(found["sentence"])
    curves = found["curves"]
    for name, label in (("loss", "loss"), ("gradient_norm", "gradient norm")):
        _print_curve(label, curves["steps"], curves[name])
    _print_times(curves["seconds"])
    _print_scopes(found["scopes"], run)
    _print_findings(found["findings"])
    if found["hits"]:
        print_line()
        print_line(f"hits: {typed('hits', run)}")
        for group in found["hits"][:10]:
            times = f" ({group['count']} times)" if group["count"] > 1 else ""
            when = f"  step {group['first_step']:>5}  {group['label']}  "
            told = fitted(group["message"], taken=len(when) + len(times))
            print_line(f"{when}{told}{times}")


def _print_curve(label: str, steps: Sequence[int], values: Sequence[float | None]) -> None:
    if any(value is not None for value in values):
        print_line()
        print_line(label)
        width = max(20, min(100, shutil.get_terminal_size().columns - 20))
        for line in plot(steps, values, width):
            print_line(f"  {line}")


def _print_times(seconds: Sequence[float | None]) -> None:
    known = sorted(value for value in seconds if value is not None)
    if known:
        print_line()
        middle = known[len(known) // 2]
        print_line(f"time per step: {duration(middle)} (slowest {duration(known[-1])})")


def _print_scopes(scopes: Sequence[Mapping[str, Any]], run: str) -> None:
    print_line()
    rows = [
        [
            "  " * scope["depth"] + scope["label"],
            scope["operators"],
            scope["parameters"] or None,
            _range(scope),
        ]
        for scope in scopes[:_LINES]
    ]
    columns = ("model", "operators", "parameters", "values of the last step")
    print_table(columns, rows, whole=columns[-1:], spare=("parameters",))
    if len(scopes) > _LINES:
        more = counted(len(scopes) - _LINES, "more scope")
        print_line(f"and {more}: {typed('nodes', run)}")


def _range(scope: Mapping[str, Any]) -> str:
    if scope["min"] is None:
        return "-"
    bad = f", {scope['bad']} NaN or Inf" if scope["bad"] else ""
    return f"{number(scope['min'], 4)} … {number(scope['max'], 4)}{bad}"


def _print_findings(findings: Sequence[Mapping[str, Any]]) -> None:
    if not findings:
        return
    print_line()
    print_line("what stands out in the last step")
    rows = [[f["kind"], f["name"], near(f["where"]), f["what"]] for f in findings]
    print_table(("what", "operator", "line", "numbers"), rows)
