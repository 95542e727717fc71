"""Hits as lists and groups, and the verdict over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opscope.judge.origin.verdict import shown_place, text
from opscope.rundir.jsonlines import with_floats
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.hit_answers import (
        HitGroup,
        HitGroups,
        HitHistory,
        HitLine,
        Hits,
        NoteLine,
        Notes,
        Verdict,
    )

_MOST_STEPS = 120
"""So many steps tell the history of a group."""


class Wanted(NamedTuple):
    """A choice of hits; None and nothing stand for any."""

    step: int | None = None
    condition: str = ""
    watchpoint: int | None = None
    node: int | None = None
    graph: int | None = None

    def hits(self, view: RankView) -> list[Mapping[str, Any]]:
        """Those hits, in the order of execution."""
        return [hit for hit in view.hits if self._takes(view, hit)]

    def _takes(self, view: RankView, hit: Mapping[str, Any]) -> bool:
        return (
            self.step in (None, hit.get("step"))
            and self.condition in ("", hit.get("condition"))
            and self.watchpoint in (None, hit.get("watchpoint"))
            and self.node in (None, hit.get("node"))
            and (self.graph is None or self.graph == _graph_of(view, hit))
        )


def hits(view: RankView, wanted: Wanted, first: int = 0, count: int = 100) -> Hits:
    """Hits in the order of execution, a page of them."""
    found = wanted.hits(view)
    return {"total": len(found), "hits": [hit_line(hit) for hit in found[first : first + count]]}


def _graph_of(view: RankView, hit: Mapping[str, Any]) -> int | None:
    node = view.nodes.get(hit.get("node", -1))
    return None if node is None else node.graph


def hit_line(hit: Mapping[str, Any]) -> HitLine:
    """A recorded hit as plain data of a known form."""
    return {
        "step": int(hit.get("step", 0)),
        "rank": int(hit.get("rank", 0)),
        "watchpoint": int(hit.get("watchpoint", 0)),
        "label": str(hit.get("label") or hit.get("condition") or ""),
        "condition": str(hit.get("condition", "")),
        "message": str(hit.get("message", "")),
        "params": dict(hit.get("params") or {}),
        "actual": dict(hit.get("actual") or {}),
        "node": hit.get("node"),
        "name": str(hit.get("name", "")),
        "io": hit.get("io"),
        "slot": int(hit.get("slot", 0)),
        "call": int(hit.get("call", 0)),
        "phase": str(hit.get("phase", "")),
        "parameter": str(hit.get("parameter", "")),
        "where": str(hit.get("where", "")),
        "has_verdict": hit.get("verdict") is not None,
    }


def verdict(view: RankView) -> Verdict:
    """Say what is wrong, in a sentence and in full; or that nothing is."""
    found = view.hits
    story = story_of(view)
    first = found[0] if found else None
    step = story.get("step") if story else (first.get("step") if first else None)
    return {
        "sentence": _sentence(view, story, first),
        "story": story,
        "text": text(with_floats(story)) if story else [],
        "step": step,
        "hits": len(found),
        "notes": len(view.notes),
        "groups": [_group(group) for group in _groups(found)],
        "state": str(view.recorded.state),
    }


def story_of(view: RankView) -> dict[str, Any] | None:
    """The first verdict there is, as it was recorded."""
    return next((dict(hit["verdict"]) for hit in view.hits if hit.get("verdict")), None)


def _sentence(
    view: RankView, story: Mapping[str, Any] | None, first: Mapping[str, Any] | None
) -> str:
    if story is not None:
        where = str(story.get("where") or "")
        place = f" · {shown_place(where)}" if where else ""
        began = f"began in {story.get('op_type') or story.get('name')}"
        return f"NaN or Inf in step {story.get('step')} · {began}{place} · {story.get('what')}"
    if first is not None:
        place = f" · {shown_place(str(first['where']))}" if first.get("where") else ""
        return f"{first.get('message')} · step {first.get('step')}{place}"
    if "hits" in view.reader.recording.lacks:
        return view.reader.recording.lacks["hits"]
    count = sum(step.complete for step in view.recorded.steps)
    return f"Nothing wrong was found in {count} step{'' if count == 1 else 's'}"


def _groups(found: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Hits of one condition on one node or parameter, together."""
    groups: dict[tuple[str, Any, str], list[Mapping[str, Any]]] = {}
    for hit in found:
        key = str(hit.get("condition", "")), hit.get("node"), str(hit.get("parameter", ""))
        groups.setdefault(key, []).append(hit)
    return list(groups.values())


def _group(found: Sequence[Mapping[str, Any]]) -> HitGroup:
    first = hit_line(found[0])
    return {
        "condition": first["condition"],
        "label": first["label"],
        "count": len(found),
        "first_step": first["step"],
        "last_step": int(found[-1].get("step", 0)),
        "message": first["message"],
        "node": first["node"],
        "name": first["name"] or first["parameter"],
        "where": first["where"],
    }


def hit_groups(view: RankView, wanted: Wanted, first: int = 0, count: int = 100) -> HitGroups:
    """Hits in groups, each with its history over steps; a page of groups."""
    found = wanted.hits(view)
    groups = _groups(found)
    shown = groups[first : first + count]
    return {
        "total": len(groups),
        "hits": len(found),
        "groups": [_history(group) for group in shown],
    }


def _history(found: Sequence[Mapping[str, Any]]) -> HitHistory:
    first = hit_line(found[0])
    by_step = {int(hit.get("step", 0)): hit_line(hit) for hit in reversed(found)}
    steps = _some(sorted(by_step))
    return {
        **_group(found),
        "watchpoint": first["watchpoint"],
        "parameter": first["parameter"],
        "params": first["params"],
        "steps": steps,
        "actual": {
            name: [by_step[step]["actual"].get(name) for step in steps] for name in first["actual"]
        },
    }


def _some(steps: list[int]) -> list[int]:
    """At most so many steps, the first and the last among them."""
    if len(steps) <= _MOST_STEPS:
        return steps
    last = len(steps) - 1
    return [steps[place * last // (_MOST_STEPS - 1)] for place in range(_MOST_STEPS)]


def notes(view: RankView, first: int = 0, count: int = 100) -> Notes:
    """Return a page of the notes on what did no harm."""
    found = view.notes
    return {"total": len(found), "notes": [_note(note) for note in found[first : first + count]]}


def _note(note: Mapping[str, Any]) -> NoteLine:
    node, slot = note.get("node"), note.get("slot")
    return {
        "kind": str(note["kind"]),
        "step": int(note["step"]),
        "message": str(note["message"]),
        "node": node if isinstance(node, int) else None,
        "name": str(note["name"]),
        "slot": slot if isinstance(slot, int) else 0,
        "where": str(note["where"]),
    }
