"""The routes: each asks one view. Their types are the API's description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from opscope import __version__
from opscope.errors import OpscopeError
from opscope.rundir.jsonlines import dumps
from opscope.server.answering import answer
from opscope.server.hub import Hub
from opscope.server.library import LibraryEntry
from opscope.server.state import hub_of, library_of
from opscope.views import (
    answers,
    drawing_answers,
    heat_map,
    hit_answers,
    hit_list,
    line_trends,
    node_answers,
    node_details,
    path,
    rank_compare,
    run_list,
    scope_graph,
    source_answers,
    source_view,
    strip,
    tree,
    watch_answers,
)
from opscope.views.outlook import Outlook
from opscope.views.rank_view import RankView

router = APIRouter(
    responses={400: {"model": answers.ErrorAnswer}, 404: {"model": answers.ErrorAnswer}}
)
RunId = Annotated[str, Path(description="the id of a run, as /runs lists it", max_length=200)]
RankNumber = Annotated[int, Path(ge=0, description="the rank")]
NodeNumber = Annotated[int, Path(ge=0, lt=1 << 31, description="the id of a node")]
Step = Annotated[
    int | None,
    Query(ge=0, lt=1 << 31, description="the step; the last recorded one up to it is shown"),
]
PassNumber = Annotated[int, Query(alias="pass", ge=0, lt=1 << 31, description="which pass of it")]
First = Annotated[int, Query(ge=0, lt=1 << 40, description="how many to leave out")]
Count = Annotated[int, Query(ge=1, le=1000, description="how many at most")]
GraphNumber = Annotated[int | None, Query(ge=0, lt=1000, description="0: training, 1: evaluation")]
Text = Annotated[str, Query(max_length=1000)]
ScopeName = Annotated[str, Query(max_length=1 << 15, description="the name of a scope")]
RANK = "/runs/{run}/ranks/{rank}"
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
_LOOK_S = 0.5
"""The interval at which a recording is looked at for the stream of changes while it is written."""
_GLANCE_S = 0.05
_RETRY_MS = 700
"""The time a page waits before it connects again; browsers would wait some seconds."""


def _opened(request: Request, run: str) -> LibraryEntry:
    return library_of(request).open(run)


def _view(request: Request, run: RunId, rank: RankNumber) -> RankView:
    return _opened(request, run).view(rank)


View = Annotated[RankView, Depends(_view)]
"""The rank that a question is about."""


@router.get("/about", response_model=dict[str, str])
def about() -> Response:
    """Versions of opscope and of this API."""
    return answer({"opscope": __version__, "api": "1"})


@router.get("/runs", response_model=Sequence[answers.RunLine])
def runs(request: Request) -> Response:
    """All runs and dumps, the latest first."""
    library, hub = library_of(request), hub_of(request)
    lines = []
    for number in library.paths():
        try:
            lines.append(run_list.run_line(number, library.recording(number), hub.is_live(number)))
        except OpscopeError:  # it was removed meanwhile, or cannot be read
            continue
    return answer(lines)


@router.get("/runs/{run}", response_model=answers.RunDetails)
def run_details(request: Request, run: RunId) -> Response:
    """A run with its ranks."""
    opened = _opened(request, run)
    views = [opened.view(rank) for rank in opened.ranks]
    return answer(run_list.run_details(run, opened.reader, views, hub_of(request).is_live(run)))


@router.get("/runs/{run}/compare", response_model=watch_answers.RanksCompared)
def compare(request: Request, run: RunId) -> Response:
    """All ranks of a run beside each other, and where one first differs."""
    opened = _opened(request, run)
    return answer(rank_compare.compare_ranks([opened.view(rank) for rank in opened.ranks]))


@router.get(f"{RANK}/verdict", response_model=hit_answers.Verdict)
def verdict(view: View) -> Response:
    """Return what is wrong, or that nothing is."""
    return answer(hit_list.verdict(view))


@router.get(f"{RANK}/strip", response_model=answers.Strip)
def strip_of(
    view: View,
    points: Annotated[int, Query(ge=2, le=20_000, description="at most so many points")] = 2000,
) -> Response:
    """Loss, gradient norm, time and hits over all steps."""
    return answer(strip.strip(view, points))


@router.get(f"{RANK}/steps", response_model=answers.Steps)
def steps_of(view: View, first: First = 0, count: Count = 100) -> Response:
    """Steps as a table, the latest first."""
    return answer(strip.steps(view, first, count))


@router.get(f"{RANK}/tree", response_model=node_answers.Branch)
def tree_of(view: View, scope: ScopeName = "", step: Step = None) -> Response:
    """Return what is directly in a scope, with the numbers of a step."""
    return answer(tree.branch(view, scope, step))


@router.get(f"{RANK}/nodes", response_model=node_answers.NodeList)
def nodes_of(
    view: View,
    text: Text = "",
    step: Step = None,
    phase: Text = "",
    op_type: Text = "",
    scope: ScopeName = "",
    graph: GraphNumber = None,
    kind: Annotated[str, Query(pattern="^(|weight|gradient|activation)$")] = "",
    hits: bool = False,
    first: First = 0,
    count: Count = 100,
) -> Response:
    """Nodes that match a text (name, parameter, operator, `file.py:12`) and filters."""
    found = tree.node_list(
        view,
        text,
        step=step,
        phase=phase,
        op_type=op_type,
        scope=scope,
        graph=graph,
        kind=kind,
        with_hits=hits,
        first=first,
        count=count,
    )
    return answer(found)


@router.get(f"{RANK}/nodes/{{node}}", response_model=node_answers.NodeDetails)
def node_of(
    view: View,
    node: NodeNumber,
    step: Step = None,
    pass_number: PassNumber = 0,
) -> Response:
    """Everything about one node in a step."""
    return answer(node_details.node_details(view, node, step, pass_number))


@router.get(f"{RANK}/nodes/{{node}}/series", response_model=node_answers.Series)
def series_of(
    view: View,
    node: NodeNumber,
    side: Annotated[str, Query(alias="io", pattern="^(input|output)$")] = "output",
    slot: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    stats: Annotated[str, Query(max_length=200, description="names with commas")] = "min,max,mean",
) -> Response:
    """Statistics of one value over all steps."""
    names = [name.strip() for name in stats.split(",") if name.strip()]
    return answer(node_details.series(view, node, side, slot, names))


def _wanted(
    step: Step = None,
    condition: Text = "",
    watchpoint: Annotated[int | None, Query(ge=0)] = None,
    node: Annotated[int | None, Query(ge=0)] = None,
    graph: GraphNumber = None,
) -> hit_list.Wanted:
    return hit_list.Wanted(step, condition, watchpoint, node, graph)


Wanted = Annotated[hit_list.Wanted, Depends(_wanted)]
"""The hits that a question is about."""


@router.get(f"{RANK}/hits", response_model=hit_answers.Hits)
def hits_of(view: View, wanted: Wanted, first: First = 0, count: Count = 100) -> Response:
    """Hits in the order of execution."""
    return answer(hit_list.hits(view, wanted, first, count))


@router.get(f"{RANK}/hits/groups", response_model=hit_answers.HitGroups)
def hit_groups_of(view: View, wanted: Wanted, first: First = 0, count: Count = 100) -> Response:
    """Hits of the same kind together, with their history over steps."""
    return answer(hit_list.hit_groups(view, wanted, first, count))


@router.get(f"{RANK}/notes", response_model=hit_answers.Notes)
def notes_of(view: View, first: First = 0, count: Count = 100) -> Response:
    """NaN and Inf that did no harm: skipped batches, masked values."""
    return answer(hit_list.notes(view, first, count))


@router.get(f"{RANK}/files", response_model=source_answers.SourceFiles)
def files_of(view: View, step: Step = None) -> Response:
    """The user's files that operators came from."""
    return answer(source_view.source_files(view, step))


@router.get(f"{RANK}/source", response_model=source_answers.SourceText)
def source_of(
    view: View,
    file: Annotated[str, Query(max_length=4096, description="as /files has it")],
    step: Step = None,
) -> Response:
    """One file with what its lines computed."""
    return answer(source_view.source_text(view, file, step))


@router.get(f"{RANK}/source/trends", response_model=source_answers.LineTrends)
def line_trends_of(
    view: View,
    file: Annotated[str, Query(max_length=4096, description="as /files has it")],
    columns: Annotated[int, Query(ge=2, le=200)] = 24,
    last: Step = None,
) -> Response:
    """Return what the lines of a file computed over steps."""
    return answer(line_trends.line_trends(view, file, columns, last))


@router.get(f"{RANK}/heatmap", response_model=drawing_answers.HeatMap)
def heat_map_of(
    view: View,
    stat: Annotated[str, Query(description=f"one of {', '.join(heat_map.STATS)}")] = "max",
    scope: ScopeName = "",
    depth: Annotated[int, Query(ge=1, le=64)] = 3,
    first: Step = None,
    last: Step = None,
    columns: Annotated[int, Query(ge=2, le=1000)] = 120,
) -> Response:
    """One number per scope and step."""
    found = heat_map.heat_map(
        view,
        stat,
        scope=scope,
        depth=depth,
        first=first,
        last=last,
        columns=columns,
    )
    return answer(found)


@router.get(f"{RANK}/graph", response_model=drawing_answers.ScopeGraph)
def graph_of(
    view: View,
    scope: ScopeName = "",
    step: Step = None,
    backward: bool = False,
) -> Response:
    """One open scope as boxes and edges."""
    return answer(scope_graph.scope_graph(view, scope, step, backward))


@router.get(f"{RANK}/path", response_model=drawing_answers.NodePath)
def path_of(
    view: View,
    start: Annotated[int, Query(ge=0, lt=1 << 31, description="the id of a node")],
    end: Annotated[int, Query(ge=0, lt=1 << 31, description="the id of another")],
    scope: ScopeName = "",
    step: Step = None,
    backward: bool = False,
) -> Response:
    """The way of data from one operator to another, and through which boxes of an open scope."""
    return answer(path.path(view, start, end, step, Outlook(scope, backward)))


# ---------------------------------------------------------------------- changes


@router.get("/runs/{run}/events", response_class=StreamingResponse, responses=_STREAM)
async def events(
    request: Request,
    run: RunId,
    watching: Annotated[bool, Query(description="whether a person looks who can answer")] = False,
) -> StreamingResponse:
    """A stream of changes (server-sent events): one message when something is new."""
    opened = await asyncio.to_thread(_opened, request, run)
    return StreamingResponse(
        _changes(request, run, opened, watching),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _changes(
    request: Request, run: str, opened: LibraryEntry, watching: bool
) -> AsyncIterator[str]:
    """Send what is new, whenever there is something; a comment now and then is a sign of life."""
    hub, last, quiet = hub_of(request), None, 0
    hub.streams += 1
    if watching:
        await hub.watch(run, +1)
    try:
        yield f"retry: {_RETRY_MS}\n\n"
        while not await request.is_disconnected():
            facts = await asyncio.to_thread(_facts, opened)
            facts["live"] = hub.facts(run)
            if facts != last:
                last, quiet = facts, 0
                yield f"data: {dumps(facts)}\n\n"
            else:
                quiet += 1
                if quiet % 20 == 0:
                    yield ": still here\n\n"
            await _until_change(hub)
    finally:
        hub.streams -= 1
        if watching:
            await hub.watch(run, -1)


async def _until_change(hub: Hub) -> None:
    """Wait until it is time to look again, or a training has said something."""
    before, end = hub.changes, asyncio.get_running_loop().time() + _LOOK_S
    while hub.changes == before and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(_GLANCE_S)


def _facts(opened: LibraryEntry) -> dict[str, Any]:
    opened.refresh()
    ranks = [opened.view(rank) for rank in opened.ranks]
    return {
        "state": opened.recording.state,
        "ranks": [
            {
                "rank": view.rank,
                "state": view.recorded.state.kind,
                "step": max((record.step for record in view.recorded.steps[-1:]), default=None),
                "nodes": len(view.nodes),
                "hits": len(view.hits),
            }
            for view in ranks
        ],
    }
