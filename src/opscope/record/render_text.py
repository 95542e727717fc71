"""A report as text: for the terminal, and as `report.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_STACK_LINES = 60
_SHOWN_STEPS = 8


def render_markdown(report: Mapping[str, Any], stacks: Mapping[int, str]) -> str:
    """The whole report, with headings."""
    return "\n".join(_markdown(report, stacks)) + "\n"


def render_terminal(report: Mapping[str, Any]) -> list[str]:
    """Return the lines a person wants to read first."""
    lines = [f"how it ended: {report['cause_text']}"]
    if len(report["ranks"]) > 1 or report["absent"]:
        lines += ["", *rank_lines(report)]
    for rank in report["ranks"]:
        if rank["rank"] == report["first"]:
            lines += ["", *_rank_in_brief(rank)]
    return lines


def rank_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """One line per rank, and one per collective that waits for somebody."""
    for rank in report["ranks"]:
        last = rank["last_op"]
        where = f"step {rank['step']}, {in_words(last)}" if last else "no operator ran"
        yield f"rank {rank['rank']}: {rank['cause_text']}; {where}"
    for absent in report["absent"]:
        yield f"rank {absent}: no recording; it ended normally or is elsewhere"
    for each in report["missing"]:
        yield (
            f"{each['name']} number {each['number']} of group {each['group'] or 'default'}: "
            f"{_ranks(each['waiting'])} entered it, {_ranks(each['missing'])} did not"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def in_words(operator: Mapping[str, Any]) -> str:
    """An operator and what became of it."""
    if operator["raised"]:
        became = "which raised"
    elif operator["finished"]:
        became = "the last to finish"
    else:
        became = "in flight"
    inside = f" (inside it {operator['inside']})" if operator.get("inside") else ""
    return f"{operator['name']}{inside}, {became}"


def source_line(source: Mapping[str, Any] | None) -> str:
    """Return a place in the source and its code in one line."""
    if not source:
        return ""
    return f"{source['file']}:{source['line']} in {source['function']}: {source['code']}"


def _rank_in_brief(rank: Mapping[str, Any]) -> Iterator[str]:
    last = rank["last_op"]
    yield f"rank {rank['rank']}, process {rank['pid']}, step {rank['step']}"
    if last:
        yield f"operator: {in_words(last)}"
        yield f"phase: {last['phase']}, scope: {last['scope']}"
        if rank["source"]:
            yield f"source: {source_line(rank['source'])}"
    if rank["silent_seconds"] is not None and rank["silent_seconds"] > 1:
        yield f"no operator for {rank['silent_seconds']:.1f} s before that"
    if rank["exception"]:
        yield f"exception: {rank['exception']['type']}: {_first(rank['exception']['message'])}"
    if rank["device_window"]:
        window = rank["device_window"]
        yield (
            f"on the device: operators up to {window['completed']} are known to have run, "
            f"{window['launched']} was launched last"
        )
    for step in rank["steps"][-3:]:
        yield step_line(step)


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def step_line(step: Mapping[str, Any]) -> str:
    """The facts of a step in a line."""
    words = [f"step {step.get('step')}"]
    numbers = [key for key in ("loss", "lr", "gradient_norm") if step.get(key) is not None]
    words += [f"{key.replace('_', ' ')} {_short(step[key])}" for key in numbers]
    sizes = [key for key in ("rss", "allocated", "peak") if step.get(key) is not None]
    words += [f"{key} {int(step[key]) / 2**20:.0f} MiB" for key in sizes]
    statistics = step.get("statistics")
    if isinstance(statistics, dict):
        words += _in_numbers(statistics)
    if step.get("seconds") is None:
        words.append("under way")
    return ", ".join(words)


def _short(value: Any) -> str:
    """Write a number, or several, with the digits that matter."""
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _in_numbers(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Describe the values of a step."""
    yield f"largest |x| {_short(statistics.get('largest'))}"
    if statistics.get("not_finite"):
        yield (
            f"{statistics['not_finite']} of {statistics.get('values')} values not finite, "
            f"first {statistics.get('first')}"
        )


def _markdown(report: Mapping[str, Any], stacks: Mapping[int, str]) -> Iterator[str]:
    yield "# What this training left behind"
    yield ""
    yield f"**How it ended:** {report['cause_text']}"
    if len(report["ranks"]) > 1 or report["absent"]:
        yield ""
        yield "## Ranks"
        yield ""
        yield from (f"- {line}" for line in rank_lines(report))
    for place, rank in enumerate(report["ranks"]):
        yield from _rank_in_full(rank, stacks.get(place, ""))


def _rank_in_full(rank: Mapping[str, Any], stacks: str) -> Iterator[str]:
    yield ""
    yield f"## Rank {rank['rank']}"
    yield ""
    yield from (f"- {line}" for line in _rank_in_brief(rank))
    yield ""
    yield "### The last operators"
    yield ""
    yield "| # | step | operator | phase | source | took |"
    yield "|---|---|---|---|---|---|"
    for each in rank["last_operators"][-20:]:
        source = each["source"]
        where = f"{source['file'].rpartition('/')[2]}:{source['line']}" if source else ""
        yield (
            f"| {each['sequence']} | {each['step']} | {_cell(each['name'])} | {each['phase']} | "
            f"{_cell(where)} | {took(each)} |"
        )
    yield from _steps_and_batch(rank)
    if rank["exception"]:
        yield from ("", "### The exception", "", "```", rank["exception"]["traceback"], "```")
        yield from _frame_tensors(rank["exception"])
    if stacks:
        lines = stacks.splitlines()[:_STACK_LINES]
        yield from ("", "### Stacks of all threads", "", "```", *lines, "```")
    facts = rank["facts"]
    yield from ("", "### Program", "")
    yield f"- command: `{' '.join(facts.get('command', []))}`"
    yield f"- started: {datetime.fromtimestamp(rank['started']):%Y-%m-%d %H:%M:%S}"
    yield f"- host: {rank['host']}, git: {facts.get('git') or 'no repository'}"
    versions = ", ".join(f"{k} {v}" for k, v in facts.get("versions", {}).items())
    yield f"- versions: {versions}"


def took(each: Mapping[str, Any]) -> str:
    """Return the time an operator took, or that it raised or never returned."""
    if each["raised"]:
        return "**raised**"
    return "**in flight**" if each["seconds"] is None else f"{each['seconds'] * 1e6:.0f} µs"


def _steps_and_batch(rank: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "### The last steps", "")
    yield from (f"- {step_line(step)}" for step in rank["steps"][-_SHOWN_STEPS:])
    batch = next((s["batch"] for s in reversed(rank["steps"]) if s.get("batch")), None)
    if batch:
        yield from ("", "### The last batch", "")
        for tensor in batch:
            yield (
                f"- {tensor['name']}: {tensor['dtype']} {tensor['shape']}, "
                f"digest {tensor.get('digest', 'not taken')}"
            )


def _frame_tensors(exception: Mapping[str, Any]) -> Iterator[str]:
    for frame in exception["frames"]:
        if frame["tensors"]:
            yield ""
            yield f"{frame['file']}:{frame['line']} in {frame['function']}:"
            yield from (
                f"- `{name}`: {', '.join(f'{k} {v}' for k, v in about.items())}"
                for name, about in frame["tensors"].items()
            )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
