"""The routes of values: their facts, parts of their elements, their relations, and files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from opscope.arrays.files import npy_parts, safetensors_parts
from opscope.arrays.histograms import MOST_BINS
from opscope.arrays.summaries import MOST_PLACES
from opscope.errors import OpscopeError
from opscope.server.answering import answer, answer_plain
from opscope.server.routes import RANK, NodeNumber, PassNumber, RunId, Step, View
from opscope.server.state import hub_of
from opscope.server.value_source import Against, Looked, find, live_facts
from opscope.views import answers, relations, value_answers
from opscope.views.tensor_view import Which, facts, picture_kind, which_value

router = APIRouter(
    responses={400: {"model": answers.ErrorAnswer}, 404: {"model": answers.ErrorAnswer}}
)
VALUE = f"{RANK}/values/{{node}}/{{side}}/{{slot}}"
Index = Annotated[str, Query(max_length=1000, description="such as 0,:,2:10,::4")]
Fold = Annotated[int, Query(ge=0, le=64, description="how many last axes are columns; 0: as fits")]
Row = Annotated[int, Query(ge=0, lt=1 << 40)]
Side = Annotated[int | None, Query(ge=1, lt=1 << 40)]
Cells = Annotated[int, Query(ge=1, le=4096)]
_FILE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


def _which(
    view: View,
    node: NodeNumber,
    side: Annotated[str, Path(pattern="^(input|output)$")],
    slot: Annotated[int, Path(ge=0, lt=1 << 31)],
    step: Step = None,
    pass_number: PassNumber = 0,
) -> Which:
    return which_value(view, node, side, slot, step, pass_number)


Chosen = Annotated[Which, Depends(_which)]
"""The value that a question is about."""


def _against(
    other: Annotated[
        str, Query(alias="against", pattern=r"^(|(step|rank):[0-9]{1,9})$", description="step:3")
    ] = "",
    show: Annotated[str, Query(pattern="^(difference|before)$")] = "difference",
    rtol: Annotated[float, Query(ge=0)] = 0.0,
    atol: Annotated[float, Query(ge=0)] = 0.0,
) -> Against:
    """Return what it is compared with, and which of the three is shown."""
    return Against(other, show, rtol, atol)


async def _looked(
    request: Request,
    run: RunId,
    which: Chosen,
    step: Step = None,
    against: Annotated[Against, Depends(_against)] = Against(),  # noqa: B008 - it cannot be changed
) -> Looked:
    state = request.app.state
    return await find(state.hub, state.library, run, which, step, against)


Source = Annotated[Looked, Depends(_looked)]
"""The place where its elements are asked for."""


@router.get(VALUE, response_model=value_answers.ValueFacts)
async def value_of(request: Request, run: RunId, which: Chosen, step: Step = None) -> Response:
    """A value: dtype, shape, numbers, hits, and where its elements are."""
    found: dict[str, Any] = await asyncio.to_thread(lambda: dict(facts(which)))
    if not found["held"]:
        found |= await live_facts(hub_of(request), run, which, step)
    return answer(found)


@router.get(f"{VALUE}/layout", response_model=value_answers.Layout)
async def layout_of(source: Source, index: Index = "", fold: Fold = 0) -> Response:
    """Return how the elements that an index takes are laid out as rows and columns."""
    return answer(await source.look("layout", index=index, fold=fold))


@router.get(f"{VALUE}/slice", response_model=value_answers.Slice)
async def slice_of(source: Source, index: Index = "") -> Response:
    """Elements of a value."""
    return answer_plain(await source.look("slice", index=index))


@router.get(f"{VALUE}/tile", response_model=value_answers.Tile)
async def tile_of(
    source: Source,
    index: Index = "",
    fold: Fold = 0,
    rows: Cells = 200,
    columns: Cells = 200,
    top: Row = 0,
    left: Row = 0,
    height: Side = None,
    width: Side = None,
) -> Response:
    """A value as a picture: the extremes of each cell."""
    found = await source.look(
        "tile",
        index=index,
        fold=fold,
        rows=rows,
        columns=columns,
        top=top,
        left=left,
        height=height,
        width=width,
    )
    return answer_plain(found)


@router.get(f"{VALUE}/block", response_model=value_answers.Block)
async def block_of(
    source: Source,
    index: Index = "",
    fold: Fold = 0,
    top: Row = 0,
    left: Row = 0,
    height: Side = 100,
    width: Side = 100,
) -> Response:
    """Some rows and columns of elements."""
    found = await source.look(
        "block", index=index, fold=fold, top=top, left=left, height=height, width=width
    )
    return answer_plain(found)


@router.get(f"{VALUE}/histogram", response_model=value_answers.Histogram)
async def histogram_of(
    source: Source,
    index: Index = "",
    bins: Annotated[int, Query(ge=1, le=MOST_BINS)] = 60,
    log: bool = False,
) -> Response:
    """Return how many elements lie where."""
    return answer(await source.look("histogram", index=index, bins=bins, log=log))


@router.get(f"{VALUE}/statistics", response_model=value_answers.Statistics)
async def statistics_of(source: Source, index: Index = "") -> Response:
    """The numbers of the elements that an index takes, and quantiles."""
    return answer(await source.look("statistics", index=index))


@router.get(f"{VALUE}/spread", response_model=value_answers.Spread)
async def spread_of(source: Source, index: Index = "") -> Response:
    """Quantiles, and the ends of a scale of colours."""
    return answer(await source.look("spread", index=index))


@router.get(f"{VALUE}/along", response_model=value_answers.Along)
async def along_of(
    source: Source,
    index: Index = "",
    axis: Annotated[int, Query(ge=0, le=63)] = 0,
    first: Row = 0,
    count: Annotated[int, Query(ge=1, le=MOST_PLACES)] = 100,
) -> Response:
    """The numbers of each place along an axis."""
    return answer(await source.look("along", index=index, axis=axis, first=first, count=count))


@router.get(f"{VALUE}/places", response_model=value_answers.Places)
async def places_of(source: Source, index: Index = "", fold: Fold = 0) -> Response:
    """Return where the first extremes are, and the first that is not finite."""
    return answer(await source.look("places", index=index, fold=fold))


@router.get(f"{VALUE}/compared", response_model=value_answers.Compared)
async def compared_of(source: Source, index: Index = "", fold: Fold = 0) -> Response:
    """Return how far it is from what it is compared with (`against`)."""
    return answer(await source.look("compared", index=index, fold=fold))


@router.get(f"{VALUE}/pictures", response_model=value_answers.Pictures)
async def pictures_of(
    source: Source, first: Row = 0, count: Annotated[int, Query(ge=1, le=512)] = 32
) -> Response:
    """Filters, images, channels or attention maps, where its shape suggests such."""
    shape = tuple((await source.look("layout"))["shape"])
    kind = picture_kind(source.which, shape)
    if kind is None:
        raise OpscopeError(f"{source.which.address} has no shape of pictures")
    args = {**kind, "total": kind["count"], "first": first, "count": count}
    return answer_plain(await source.look("pictures", **args))


@router.get(f"{VALUE}/relations", response_model=value_answers.Relations)
def relations_of(
    which: Chosen, hops: Annotated[int, Query(ge=1, le=relations.MOST_HOPS)] = 2
) -> Response:
    """Return what it was computed from, and what it feeds."""
    return answer(relations.relations(which, hops))


@router.get(f"{VALUE}/npy", response_class=StreamingResponse, responses=_FILE)
async def npy_of(source: Source, index: Index = "") -> Response:
    """A value, or a slice of it, as a .npy file."""
    return _file(source, "npy", npy_parts(await source.array(index)))


@router.get(f"{VALUE}/safetensors", response_class=StreamingResponse, responses=_FILE)
async def safetensors_of(source: Source, index: Index = "") -> Response:
    """The same as a safetensors file, in which it is called `value`."""
    return _file(source, "safetensors", safetensors_parts(await source.array(index)))


def _file(source: Looked, kind: str, parts: Iterator[bytes]) -> Response:
    which = source.which
    name = f"step{which.step}-node{which.node.id}-{which.io}{which.slot}.{kind}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(parts, headers=headers, media_type="application/octet-stream")
