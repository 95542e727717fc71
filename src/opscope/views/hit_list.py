"""Hits as lists and groups, and the verdict over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.judge.origin.verdict import shown_place, text
from opscope.rundir.jsonlines import with_floats
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.hit_answers import HitGroup, HitLine, Hits, Verdict


def hits(
    view: RankView,
    *,
    step: int | None = None,
    condition: str = "",
    watchpoint: int | None = None,
    node: int | None = None,
    graph: int | None = None,
    first: int = 0,
    count: int = 100,
) -> Hits:
    """Hits in the order of execution, those that are all of this."""
    found = [
        hit
        for hit in view.hits
        if (step is None or hit.get("step") == step)
        and (not condition or hit.get("condition") == condition)
        and (watchpoint is None or hit.get("watchpoint") == watchpoint)
        and (node is None or hit.get("node") == node)
        and (graph is None or _graph_of(view, hit) == graph)
    ]
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
    """What is wrong, in a sentence and in full; or that nothing is."""
    found = view.hits
    story = next((dict(hit["verdict"]) for hit in found if hit.get("verdict")), None)
    first = found[0] if found else None
    step = story.get("step") if story else (first.get("step") if first else None)
    return {
        "sentence": _sentence(view, story, first),
        "story": story,
        "text": text(with_floats(story)) if story else [],
        "step": step,
        "hits": len(found),
        "groups": _groups(view),
        "state": str(view.recorded.state),
    }


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
    count = len(view.recorded.steps)
    return f"Nothing wrong was found in {count} step{'' if count == 1 else 's'}"


def _groups(view: RankView) -> list[HitGroup]:
    groups: dict[tuple[str, Any, str], HitGroup] = {}
    for hit in view.hits:
        condition, parameter = str(hit.get("condition", "")), str(hit.get("parameter", ""))
        key = (condition, hit.get("node"), parameter)
        step = int(hit.get("step", 0))
        group = groups.get(key)
        if group is not None:
            group["count"] += 1
            group["last_step"] = step
            continue
        groups[key] = {
            "condition": condition,
            "label": str(hit.get("label") or condition),
            "count": 1,
            "first_step": step,
            "last_step": step,
            "message": str(hit.get("message", "")),
            "node": hit.get("node"),
            "name": str(hit.get("name") or parameter),
            "where": str(hit.get("where", "")),
        }
    return list(groups.values())
