"""Compares what a training found while it ran with checks of its run and of its dump."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import opscope
from opscope.analysis.check import Checked
from opscope.events import Outside
from opscope.judge.condition import TRAINING, WEIGHT
from opscope.judge.hits import Hit
from opscope.judge.outcome import NO_VALUES, REASONS
from opscope.rundir.jsonlines import dumps

_LITERAL = "literal"
WATCH = "; ".join(
    [
        "thorough",
        *(
            f"{each} name={_LITERAL}"
            for each in (
                *("TO", "WO", "GE", "TZ", "TL abs_mean_gt=10", "TS max_lt=-1", "WL max_gt=0.5"),
                *("WNC", "WCL", "WCS", "WI max_gt=0.2", "GL abs_mean_gt=1", "GV abs_mean_lt=1e-7"),
                *("AR max_min_gt=1", "AD steps_ge=2", "AS steps_ge=2"),
                "TR range_percentage_gt=50 range_start_inclusive=-1 range_end_inclusive=0.5",
            )
        ),
    ]
)
"""The thorough watchpoints, and others of every kind that many values of any training hit."""
COMPARED = "compared"
"""Stands for these, for programs that are told how to watch in a word."""
Line = dict[str, Any]


def dump_config(folder: Path, iterations: str) -> Path:
    """Write the config of a dump of everything in some iterations, to `folder`/dump."""
    settings = {
        "path": str(folder / "dump"),
        "iteration": iterations,
        "saved_data": "full",
        "dump_mode": 0,
        "input_output": 0,
    }
    folder.mkdir(exist_ok=True)
    file = folder / "data_dump.json"
    file.write_text(json.dumps({"common_dump_settings": settings}))
    return file


def live_hits(run: Path) -> list[Line]:
    """What was found while it ran."""
    return [json.loads(line) for line in _lines(run)]


def _lines(run: Path) -> list[str]:
    files = sorted(run.glob("rank_*/hits.jsonl"))
    return [line for file in files for line in file.read_text().splitlines()]


def is_thorough(hit: Line) -> bool:
    """Whether a hit is of one of the thorough watchpoints."""
    return bool(hit["label"] != _LITERAL)


def check_run(run: Path) -> None:
    """A check of a run finds what the training found, but for what rows do not tell."""
    live = Counter(map(_without_verdict, _lines(run)))
    checked = opscope.open(run).check(WATCH)
    found = Counter(dumps(hit.to_json()) for hit in checked.hits)
    assert not found - live, ("found only by the check", *(found - live))
    missing = Counter(json.loads(text)["watchpoint"] for text in (live - found).elements())
    unexplained = (missing - _not_kept(checked)).keys()
    left = [text for text in live - found if json.loads(text)["watchpoint"] in unexplained]
    assert not left, ("found only live", *left)


def check_dump(run: Path, dump: Path) -> None:
    """A check of a dump finds what the training found in the steps that were dumped.

    The dump has the first steps, all of them. It knows neither losses nor edges, and takes buffers
    for weights.
    """
    recording = opscope.open(dump)
    checked = recording.check(WATCH)
    unknown = {each.watchpoint.id for each in checked.unchecked if not each.count}
    steps, parameters = set(recording.steps), _parameters(run)
    for each in checked.unchecked:
        without_weights = each.watchpoint.cls == WEIGHT and not parameters
        assert each.count or without_weights or _is_not_for_dumps(each.watchpoint)
    live = Counter(
        _in_dump(hit)
        for hit in live_hits(run)
        if hit["step"] in steps and hit["watchpoint"] not in unknown
    )
    found = Counter(_in_dump(hit.to_json()) for hit in checked.hits if _is_known(hit, parameters))
    assert not found - live, ("found only in the dump", *(found - live))
    assert not live - found, ("found only live", *(live - found))


def _without_verdict(line: str) -> str:
    """All that was written of a hit but its verdict, which only a training that runs gives."""
    if '"verdict"' not in line:
        return line
    return dumps({key: value for key, value in json.loads(line).items() if key != "verdict"})


def _not_kept(checked: Checked) -> Counter[int]:
    """By watchpoint: how many values would have had to be kept to be checked."""
    reason = REASONS[NO_VALUES]
    return Counter({u.watchpoint.id: u.count for u in checked.unchecked if u.reason == reason})


def _in_dump(hit: Line) -> tuple[Any, ...]:
    """What a dump tells of a hit; a parameter is a value of its own there."""
    place = (hit["name"], hit["slot"], hit["call"])
    about = (
        (hit["parameter"],) if hit["io"] == "input" or hit["name"] == hit["parameter"] else place
    )
    return hit["watchpoint"], hit["step"], hit["rank"], *about, hit["message"]


def _is_not_for_dumps(watchpoint: Any) -> bool:
    condition = watchpoint.condition
    return condition.target == TRAINING or condition.abbr == "OO" or not condition.nonfinite


def _is_known(hit: Hit, parameters: set[str]) -> bool:
    return not hit.parameter or hit.parameter in parameters


def _parameters(run: Path) -> set[str]:
    ranks = opscope.open(run).recording.ranks.values()
    sources = (
        s for rank in ranks for node in rank.nodes.values() for v in node.variants for s in v
    )
    return {s.name for s in sources if isinstance(s, Outside) and s.kind == "parameter"}
