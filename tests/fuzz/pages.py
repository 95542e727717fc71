"""What the page asks of a recording: every view of a run or dump, and of what the recorder left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.read.recorded import Recorded
from opscope.rundir.jsonlines import encode
from opscope.server.library import LibraryEntry
from opscope.views import (
    heat_map,
    hit_list,
    line_trends,
    node_details,
    rank_compare,
    recording_view,
    run_list,
    scope_graph,
    source_view,
    strip,
    tree,
)
from opscope.views.html_report import html_report
from opscope.views.rank_view import RankView
from opscope.views.reach import reach
from opscope.views.timeline import timeline

Question = tuple[str, Callable[[], object]]

_NODES = 12


def about_run(path: Path) -> list[Question]:
    """Each with what it is called."""
    views: dict[str, Callable[[RankView], object]] = {
        "verdict": hit_list.verdict,
        "hits": lambda view: hit_list.hits(view, hit_list.Wanted()),
        "groups of hits": lambda view: hit_list.hit_groups(view, hit_list.Wanted()),
        "notes": hit_list.notes,
        "strip": strip.strip,
        "steps": strip.steps,
        "tree": tree.branch,
        "nodes": tree.node_list,
        "heat map": heat_map.heat_map,
        "graph": scope_graph.scope_graph,
        "reach": reach,
        "details": _details,
        "sources": _sources,
    }
    return [
        *((f"the page: {name}", partial(_of_ranks, path, ask)) for name, ask in views.items()),
        ("the page: runs and ranks", partial(_whole, path)),
        ("the page: a report of hits", lambda: html_report(LibraryEntry(path).reader) and None),
    ]


def about_recording(path: Path) -> list[Question]:
    """The same of what the recorder left."""
    return [
        ("the page: facts of a recording", partial(_facts, path)),
        ("the page: a timeline", partial(_timeline, path)),
        ("the page: operators", partial(_operators, path)),
    ]


def _of_ranks(path: Path, ask: Callable[[RankView], object]) -> None:
    opened = LibraryEntry(path)
    for rank in opened.ranks:
        encode(ask(opened.view(rank)))


def _whole(path: Path) -> None:
    opened = LibraryEntry(path)
    views = [opened.view(rank) for rank in opened.ranks]
    encode(run_list.run_line("it", opened.recording, live=False))
    encode(run_list.run_details("it", opened.reader, views, live=False))
    encode(rank_compare.compare_ranks(views))


def _details(view: RankView) -> list[object]:
    some = list(view.nodes)[:_NODES]
    details: list[object] = [node_details.node_details(view, node, None, 0) for node in some]
    return details + [node_details.series(view, node, "output", 0, ["min", "l2"]) for node in some]


def _sources(view: RankView) -> list[object]:
    files = [file["file"] for file in source_view.source_files(view)["files"]]
    texts: list[object] = [source_view.source_text(view, file) for file in files]
    return texts + [line_trends.line_trends(view, file, 24, None) for file in files]


def _facts(path: Path) -> None:
    encode(recording_view.recording_facts("it", "", Recorded(path)))


def _timeline(path: Path) -> None:
    encode(timeline(Recorded(path), None, None, 500))
    encode(timeline(Recorded(path), 0, 1 << 52, 500))


def _operators(path: Path) -> None:
    recorded = Recorded(path)
    for rank in recorded.ranks:
        for sequence in (0, 1, 100, 1 << 40) if rank.ring is not None else ():
            with suppress(OpscopeError):  # it is not there
                encode(recording_view.operator_at(recorded, rank.place, sequence))
