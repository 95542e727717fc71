"""The routes of live control: where trainings connect, and where people ask for it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, WebSocket
from fastapi.responses import Response

from opscope.live.wire import PATH
from opscope.server.answering import answer
from opscope.server.hub import Hub
from opscope.server.routes import RunId
from opscope.server.state import hub_of
from opscope.views import answers, live_answers

router = APIRouter(
    responses={400: {"model": answers.ErrorAnswer}, 404: {"model": answers.ErrorAnswer}}
)
trainings = APIRouter()
RankOf = Annotated[int | None, Query(ge=0, description="the rank; the first one if not given")]
Arguments = Annotated[dict[str, Any], Body()]


@trainings.websocket(PATH)
async def connect(socket: WebSocket) -> None:
    """Serve the connection of a training."""
    hub: Hub = socket.app.state.hub
    await hub.serve(socket)


@router.get("/runs/{run}/live", response_model=live_answers.LiveState)
async def live(request: Request, run: RunId) -> Response:
    """Return how the connected ranks of a run stand."""
    return answer(await hub_of(request).fresh_facts(run))


@router.post("/runs/{run}/control", response_model=live_answers.LiveState)
async def control(request: Request, run: RunId, order: live_answers.Order) -> Response:
    """Pause, step, continue, next, to (a node), terminate: all ranks together."""
    args = {name: value for name, value in order.items() if name != "verb"}
    return answer(await hub_of(request).control(run, str(order.get("verb", "")), args))


@router.post("/runs/{run}/keep", response_model=dict[str, Any])
async def keep(request: Request, run: RunId, order: Arguments) -> Response:
    """Keep values from now on: of `nodes`, by name, scope or glob, or by `mode` all or none."""
    results = await hub_of(request).ask_all(run, "keep", order)
    return answer(results[0])


@router.get("/runs/{run}/kept", response_model=list[dict[str, Any]])
async def kept(request: Request, run: RunId, rank: RankOf = None) -> Response:
    """The values that a training keeps now."""
    return answer(await hub_of(request).ask(run, rank, "kept", {}))


@router.get("/runs/{run}/current", response_model=live_answers.CurrentNode)
async def current(request: Request, run: RunId, rank: RankOf = None) -> Response:
    """The node that a training holds at, with what went in and came out."""
    return answer(await hub_of(request).ask(run, rank, "current", {}))


@router.post("/runs/{run}/value", response_model=dict[str, Any])
async def value(request: Request, run: RunId, order: Arguments, rank: RankOf = None) -> Response:
    """A part (facts, slice, tile, histogram) of a kept value or of a parameter as it is now.

    With `previous`, as it was in the step before.
    """
    return answer(await hub_of(request).ask(run, rank, "value", order))


@router.post("/runs/{run}/value.npy", response_class=Response)
async def whole_value(
    request: Request, run: RunId, order: Arguments, rank: RankOf = None
) -> Response:
    """The whole of a kept value or of a parameter, as a file of NumPy's."""
    data = await hub_of(request).ask(run, rank, "value", {**order, "part": "npy"})
    return Response(
        data, headers={"cache-control": "no-store"}, media_type="application/octet-stream"
    )


@router.get("/runs/{run}/parameters", response_model=list[dict[str, Any]])
async def parameters(request: Request, run: RunId, rank: RankOf = None) -> Response:
    """The parameters and buffers of a connected training."""
    return answer(await hub_of(request).ask(run, rank, "parameters", {}))
