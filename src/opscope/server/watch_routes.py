"""The routes of watchpoints: of a connected training, or on what a run has recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response

from opscope.errors import OpscopeError
from opscope.judge.expression_thresholds import thresholds
from opscope.judge.watch_set import from_json
from opscope.judge.watchpoint import Watchpoint
from opscope.server.answering import answer
from opscope.server.recheck import check_again
from opscope.server.routes import RANK, Count, First, RankNumber, RunId, ScopeName, Text, View
from opscope.server.state import desk_of, hub_of, library_of
from opscope.views import answers, catalogue_view, live_answers, watch_answers, watch_preview
from opscope.views.watch_selection import Selecting

router = APIRouter(
    responses={400: {"model": answers.ErrorAnswer}, 404: {"model": answers.ErrorAnswer}}
)
Arguments = Annotated[dict[str, Any], Body()]
OneWatchpoint = Annotated[
    dict[str, Any], Body(description="a watchpoint as it stands in a file of watchpoints")
]
Last = Annotated[int, Query(ge=1, le=100_000, description="how many of the last recorded steps")]


@router.get("/conditions", response_model=list[watch_answers.ConditionFacts])
def conditions() -> Response:
    """The conditions there are, with their parameters and limits."""
    return answer(catalogue_view.conditions())


@router.get("/expression", response_model=list[watch_answers.ExpressionThreshold])
def expression(text: Text) -> Response:
    """The thresholds in the text of an expression; what is wrong with one that makes no sense."""
    return answer([each._asdict() for each in thresholds(text)])


@router.get("/runs/{run}/watchpoints", response_model=list[dict[str, Any]])
async def watchpoints(request: Request, run: RunId) -> Response:
    """The watchpoints of a connected training, or those that a run is rechecked with."""
    return answer(await _watchpoints(request, run))


async def _watchpoints(request: Request, run: str) -> Any:
    hub = hub_of(request)
    if hub.is_live(run):
        return await hub.ask(run, None, "watchpoints", {})
    await asyncio.to_thread(library_of(request).open, run)  # an error if there is no such run
    return desk_of(request).watchpoints(run)


@router.post("/runs/{run}/watchpoints", response_model=list[dict[str, Any]])
async def change_watchpoints(request: Request, run: RunId, order: Arguments) -> Response:
    """Change them: action (set, add, change, remove) with watch, id and parts; on all ranks."""
    hub = hub_of(request)
    if hub.is_live(run):
        return answer((await hub.ask_all(run, "watch", order))[0])
    await asyncio.to_thread(library_of(request).open, run)
    return answer(desk_of(request).change(run, order))


@router.post("/runs/{run}/recheck", response_model=live_answers.Recheck)
async def recheck(request: Request, run: RunId, order: Arguments) -> Response:
    """Check watchpoints (those of the run, or `watch`) on its latest step, or `step`, again."""
    watch = order.get("watch")
    if watch is None:
        watch = {"watchpoints": await _watchpoints(request, run)}
    found = await check_again(hub_of(request), library_of(request), run, watch, order.get("step"))
    return answer(found)


# ---------------------------------------------------------------------- while one is written


def _one(data: Mapping[str, Any]) -> Watchpoint:
    """The watchpoint in the body of a question."""
    return next(iter(from_json({"watchpoints": [dict(data)]}, "watchpoint")))


@router.post(f"{RANK}/watch/selection", response_model=watch_answers.Selected)
def selection(
    view: View,
    watchpoint: OneWatchpoint,
    scope: Annotated[str | None, Query(max_length=1 << 15)] = None,
    text: Text = "",
    first: First = 0,
    count: Count = 100,
) -> Response:
    """Return what a watchpoint looks at: as a tree, one scope at a time, or what matches a text."""
    found = Selecting(view, _one(watchpoint))
    return answer(found.answer(text=text, scope=scope, first=first, count=count))


@router.post(f"{RANK}/watch/tick", response_model=watch_answers.Ticked)
def tick(
    view: View,
    watchpoint: OneWatchpoint,
    on: bool,
    scope: ScopeName | None = None,
    node: Annotated[list[int], Query()] = [],  # noqa: B006 - the framework copies it
) -> Response:
    """Its selection with a scope or nodes taken in or left out."""
    return answer(Selecting(view, _one(watchpoint)).ticked(on=on, scope=scope, nodes=set(node)))


@router.post(f"{RANK}/watch/preview", response_model=watch_answers.Preview)
def preview(
    request: Request,
    run: RunId,
    rank: RankNumber,
    watchpoint: OneWatchpoint,
    last: Last = 100,
) -> Response:
    """Return what it would have found in the steps recorded last."""
    opened = library_of(request).open(run)
    return answer(watch_preview.preview(opened.reader, opened.view(rank), _one(watchpoint), last))


@router.post(f"{RANK}/watch/history", response_model=watch_answers.ThresholdHistory)
def history(
    request: Request,
    run: RunId,
    rank: RankNumber,
    watchpoint: OneWatchpoint,
    parameter: Annotated[str, Query(max_length=100)],
    last: Last = 100,
) -> Response:
    """The numbers that one of its thresholds is compared with, over the steps recorded last."""
    opened, found = library_of(request).open(run), _one(watchpoint)
    if found.condition.check is None or found.condition.needs_change:
        raise OpscopeError(f"{found.condition.abbr} compares nothing that a run keeps")
    view = opened.view(rank)
    return answer(watch_preview.threshold_history(opened.reader, view, found, parameter, last))
