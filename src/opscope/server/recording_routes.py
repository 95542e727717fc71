"""Questions about recordings: how a training ended, its last operators, and one of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from opscope.read.recorded import Recorded
from opscope.server.answering import answer
from opscope.server.state import shelf_of
from opscope.views import answers, recording_answers, recording_view
from opscope.views.timeline import timeline

router = APIRouter(
    responses={400: {"model": answers.ErrorAnswer}, 404: {"model": answers.ErrorAnswer}}
)
RecordingId = Annotated[
    str, Path(description="the id of a run that has a recording, or of one given", max_length=200)
]
Moment = Annotated[
    int | None, Query(ge=0, lt=1 << 53, description="nanoseconds since the first operator")
]


def _recorded(request: Request, recording: RecordingId) -> Recorded:
    return shelf_of(request).open(recording)


Opened = Annotated[Recorded, Depends(_recorded)]


@router.get("/recordings/{recording}", response_model=recording_answers.RecordingFacts)
def facts_of(request: Request, recording: RecordingId, recorded: Opened) -> Response:
    """Tell how a training ended, and what each of its ranks left."""
    run = shelf_of(request).run_of(recording)
    return answer(recording_view.recording_facts(recording, run, recorded))


@router.get("/recordings/{recording}/timeline", response_model=recording_answers.Timeline)
def timeline_of(
    recorded: Opened,
    start: Moment = None,
    end: Moment = None,
    columns: Annotated[int, Query(ge=1, le=4000, description="of the screen")] = 1000,
) -> Response:
    """The operators of a stretch of time, the last two steps unless told."""
    return answer(timeline(recorded, start, end, columns))


@router.get(
    "/recordings/{recording}/ranks/{place}/operators/{sequence}",
    response_model=recording_answers.OperatorAt,
)
def operator_of(
    recorded: Opened,
    place: Annotated[int, Path(ge=0, lt=1 << 31, description="of the rank in the recording")],
    sequence: Annotated[int, Path(ge=0, lt=1 << 53, description="the operator")],
) -> Response:
    """One operator, with everything that was noted of it."""
    return answer(recording_view.operator_at(recorded, place, sequence))
