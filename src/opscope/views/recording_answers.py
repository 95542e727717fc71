"""The form of answers about recordings; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number


class RecordedSource(TypedDict):
    """A line of the user's code."""

    file: str
    line: int
    function: str
    code: str
    called_from: Sequence[str]
    """`file:line` of the callers, the innermost first."""


class RecordedOperator(TypedDict):
    """One call of an operator, as the recorder noted it."""

    sequence: int
    name: str
    op: str
    op_type: str
    inside: str
    """The operator inside it that ran last."""
    scope: str
    phase: str
    step: int
    state: str
    """finished, raised or flight."""
    thread: int
    device: str
    stream: int
    started: float
    """Seconds since the epoch."""
    seconds: float | None
    dtype: str
    numel: int
    """The first input's dtype and elements."""
    group: str
    collective: int
    """Of a collective: its group and its number there; 0 for other operators."""
    source: RecordedSource | None


class OperatorAt(RecordedOperator):
    """The same, with what the ring alone knows."""

    place: int
    rank: int
    bytes: Count
    """The size of the storage of its first input."""
    address: str
    autograd: str
    """In backward: the function of autograd it runs in."""
    node: int | None
    """Its node in the run, where statistics ran."""
    before: int | None
    after: int | None
    """The operators before and after it on the same thread."""


class RecordedSteps(TypedDict):
    """The latest steps; all lists are equally long."""

    step: Sequence[int]
    loss: Sequence[Number | None]
    lr: Sequence[Number | None]
    gradient_norm: Sequence[Number | None]
    seconds: Sequence[Number | None]
    """None for the step that was under way."""
    rss: Sequence[Number | None]
    allocated: Sequence[Number | None]
    peak: Sequence[Number | None]
    """Bytes: of the process, and on the GPU."""
    largest: Sequence[Number | None]
    """The largest |x| of all values, where statistics ran."""
    not_finite: Sequence[Number | None]
    """The number of values that had elements that are not finite."""


class BatchTensor(TypedDict):
    """A tensor of the last batch."""

    name: str
    dtype: str
    shape: Sequence[int]
    digest: str
    values: Sequence[Number]
    """The first elements, where they were kept."""


class FrameTensor(TypedDict):
    """A tensor that a frame held when it raised."""

    name: str
    dtype: str
    shape: Sequence[int]
    device: str
    min: Number | None
    max: Number | None
    mean: Number | None
    """Of the finite elements; None where the values were not looked at."""
    nan: Count | None
    inf: Count | None


class RaisedFrame(TypedDict):
    """A frame of the user's code that an exception went through."""

    file: str
    line: int
    function: str
    code: str
    tensors: Sequence[FrameTensor]


class RecordedException(TypedDict):
    """The exception that was raised."""

    type: str
    message: str
    thread: str
    traceback: str
    frames: Sequence[RaisedFrame]
    """Those of the user's code, the innermost first."""


class EndedRank(TypedDict):
    """The traces that one process left."""

    place: int
    rank: int
    pid: int
    host: str
    cause: str
    cause_text: str
    step: int
    silent_seconds: float | None
    last_op: RecordedOperator | None
    operators: Sequence[RecordedOperator]
    """The last ones, the latest first."""
    source: RecordedSource | None
    completed: int | None
    launched: int | None
    """On a GPU: the last operator known to have run, and the last that was launched."""
    steps: RecordedSteps
    batch_step: int | None
    batch: Sequence[BatchTensor]
    exception: RecordedException | None
    stacks: str
    command: Sequence[str]
    versions: dict[str, str]
    git: str
    has_ring: bool
    """True if there is a timeline of it."""


class MissedCollective(TypedDict):
    """A collective that some ranks wait in and others never entered."""

    group: str
    number: int
    name: str
    waiting: Sequence[int]
    missing: Sequence[int]
    source: RecordedSource | None


class RecordingFacts(TypedDict):
    """A recording: how a training ended."""

    id: str
    name: str
    path: str
    run: str
    """The id of the run it belongs to; empty if it stands alone."""
    alive: bool
    cause: str
    cause_text: str
    first: int | None
    """The rank whose end explains the others."""
    world_size: int
    absent: Sequence[int]
    """Ranks that left nothing."""
    missing: Sequence[MissedCollective]
    ranks: Sequence[EndedRank]


class Boxes(TypedDict):
    """Operators in the order of time; all lists but `names` are equally long.

    What is too short to be seen by itself is put together with its neighbours.
    """

    sequence: Sequence[int]
    """The operator, or the first of several."""
    count: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    """Nanoseconds on the timeline; that of an operator in flight is the end of all."""
    busy: Sequence[int]
    """Nanoseconds of it in which an operator ran."""
    phase: Sequence[str]
    state: Sequence[str]
    """finished, raised or flight; of several, what is worst."""
    name: Sequence[int]
    """The place of its name in `names`; -1 for several."""
    names: Sequence[str]


class TimelineLane(TypedDict):
    """The operators of a thread, of a stream, or the collectives of a group."""

    kind: str
    """main, thread, stream or group."""
    thread: int
    device: str
    stream: int
    group: str
    operators: int
    """The number of operators in the ring."""
    boxes: Boxes


class NeverEntered(TypedDict):
    """A collective that this rank never entered."""

    group: str
    number: int
    name: str
    at: int
    """The time at which the first of the others entered it."""


class StepMark(TypedDict):
    """The beginning of a step."""

    step: int
    at: int


class RankTimeline(TypedDict):
    """One rank on the timeline."""

    place: int
    rank: int
    lanes: Sequence[TimelineLane]
    hidden: int
    """Threads that are left out, since others have run later."""
    ended: int
    """The time at which its last operator was seen."""
    completed: int | None
    """The time at which the last operator was launched that a GPU is known to have run."""
    steps: Sequence[StepMark]
    never: Sequence[NeverEntered]


class Timeline(TypedDict):
    """Operators of all ranks on one clock, in nanoseconds since the first that is known."""

    first: int
    last: int
    start: int
    end: int
    """The window that was asked for."""
    began: int
    """The time at which the last two steps begin."""
    ranks: Sequence[RankTimeline]
