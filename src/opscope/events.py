"""The vocabulary as types: what capture says and what sinks and readers hear.

Nothing here imports a framework; capture fills these objects in, sinks only read them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from opscope.native import shared

if TYPE_CHECKING:
    from opscope.calls import Calls
    from opscope.rows import Rows
    from opscope.stats.memory import RowMemory
    from opscope.stats.row import Row


class Phase(enum.StrEnum):
    """The part of a training program an operator ran in."""

    SETUP = "setup"
    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    EVAL = "eval"


TRAINING_GRAPH, EVAL_GRAPH, SETUP_GRAPH, DATA_GRAPH = 0, 1, 2, 3
"""Graph ids: one graph per kind of step."""


class IO(enum.StrEnum):
    """The side of an operator that a value is on."""

    INPUT = "input"
    OUTPUT = "output"


class Frame(NamedTuple):
    """One line of a stack; `user` is false inside torch, opscope and the standard library."""

    file: str
    line: int
    function: str
    user: bool


@dataclass(eq=False, slots=True)
class Stack:
    """A call stack, innermost frame first. `where` is the user's own line."""

    id: int
    frames: tuple[Frame, ...]

    @property
    def where(self) -> Frame | None:
        """The innermost frame of the user's own code."""
        return next((frame for frame in self.frames if frame.user), None)


class Outside(NamedTuple):
    """The source of an input that no operator of this step produced.

    `kind` is "parameter", "buffer", "state" (of an optimizer), "batch" or "outside".
    """

    kind: str
    name: str
    subject: str = ""
    """The parameter this is, or that this optimizer state belongs to."""


@dataclass(eq=False, slots=True, repr=False)
class Output:
    """One output of a node: the near end of every edge that leaves it."""

    node: Node
    slot: int
    parameter: str = ""
    """The parameter whose update or gradient this output is, if it is one."""
    subject: str = ""
    """The parameter this output has to do with: `parameter`, or what an optimizer works on."""
    uninitialised: bool = False
    """True if this is memory that nothing has been written to yet, or a view of such."""

    def __repr__(self) -> str:
        return f"<Output {self.node.name}:{self.slot}>"


Source = Output | Outside


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """One operator call site of a graph; see docs/concepts.md for how it gets its name.

    It is called at most once in most passes of a step; `opscope.calls` has the calls.
    """

    id: int
    graph: int
    name: str
    op_type: str
    op: str
    scope: str
    module_class: str
    phase: Phase
    stack: Stack
    forward: Node | None = None
    """For a backward node, the forward node it computes the gradient of."""
    parameter: str = ""
    """The parameter this node accumulates the gradient of or updates, if it is just one."""
    gradient_of: str = ""
    """The parameter whose gradient this node's outputs are."""
    with_grad: bool = True
    """True if gradients were recorded when it was first seen."""
    arguments: dict[str, str] = field(default_factory=dict)
    """Non-tensor arguments by name, as text, as they were in the first call."""
    outputs: list[Output] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    """The source of each input slot in the latest call."""
    variants: list[list[Source]] = field(default_factory=list)
    """All that `sources` have been."""
    variant: int = 0
    """The place of `sources` among them; -1 if there were too many."""
    raised: bool = False
    """True if the latest call ended in an exception."""
    plan: Any = None
    """The plan of what the sinks want of this node; belongs to the pipeline."""

    def __post_init__(self) -> None:
        self.variants.append(self.sources)

    def __repr__(self) -> str:
        return f"<Node {self.id} {self.name}>"


@dataclass(eq=False, slots=True)
class Call:
    """One execution of a node in one step. `index` counts the calls of the step: the task id."""

    node: Node
    step: int
    index: int
    stream: int
    time_us: int
    pass_number: int = 0
    """The pass of the step it belongs to."""


@dataclass(slots=True)
class LossRecord:
    """The scalar root of a backward pass, unscaled; `value` is NaN when it is not a number."""

    value: float
    node: Node | None
    call: int | None = None
    """The call that computed it."""


@dataclass(slots=True)
class StepRecord:
    """The facts of a step when it ends."""

    step: int
    calls: Calls
    losses: list[LossRecord]
    seconds: float
    skipped: bool = False
    """True if a gradient scaler withheld the update."""
    complete: bool = True
    """False for the rest of a step that was under way when capture stopped."""
    rest: bool = False
    """True if it is only what ran after the last step, such as `loss.item()`: no step."""

    @property
    def orders(self) -> Mapping[int, list[Node]]:
        """Graph → the nodes executed, in order."""
        return self.calls.orders


class ParameterFact(NamedTuple):
    """The treatment of a parameter by training, as an optimizer is about to step."""

    name: str
    frozen: bool
    """True if it needs no gradient, or the person meant so of its module."""
    has_gradient: bool
    owned: bool
    """True if some optimizer updates it."""
    stepping: bool
    """True if the one that is about to step does."""
    in_eval: bool = False
    """True if its network is in eval mode as a whole, and has layers to which that matters."""

    @property
    def bits(self) -> int:
        """All but the name, as one number."""
        return sum(value << place for place, value in enumerate(self[1:]))

    @classmethod
    def of(cls, name: str, bits: int) -> ParameterFact:
        """Make one of what `bits` is."""
        return cls(name, *(bool(bits >> place & 1) for place in range(len(cls._fields) - 1)))


class GroupFact(NamedTuple):
    """The settings of an optimizer of torch's that is about to step, for some of its parameters."""

    optimizer: str
    """Its class."""
    settings: tuple[tuple[str, float], ...]
    """Its settings that are numbers, as `lr` and `betas.0`, by name."""
    parameters: tuple[str, ...]
    """The first few of the parameters."""
    total: int
    """The number of them."""
    alone: bool
    """True if there is no other optimizer."""
    fresh: bool = False
    """True if it has gradients to use, and keeps nothing yet of any step."""


class UpdateFact(NamedTuple):
    """The losses and gradients that are not finite of those that an optimizer is about to use."""

    call: int
    """The number of calls in the step so far."""
    losses: tuple[int, ...] = ()
    """Losses that the update comes of, by their place among those of the step."""
    gradients: tuple[str, ...] = ()
    """The parameters whose gradients are not finite."""


class FeatureFact(NamedTuple):
    """The features of an input, its last dimension, as they were over some steps."""

    node: int
    slot: int
    samples: int
    features: int
    constant: tuple[int, ...]
    """Those that were one number other than 0 and 1 throughout."""
    value: float
    """The value of the first of them."""
    least: tuple[int, float]
    """The one of those that vary that varies least, and its standard deviation."""
    most: tuple[int, float]
    """The one that varies most."""


@dataclass
class Snapshot:
    """The state of training, as tensors by name; `facts` are what is no tensor."""

    batch: Mapping[str, Any] = field(default_factory=dict)
    rng: Mapping[str, Any] = field(default_factory=dict)
    """Random states as they were when the step began."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class PassingValue(NamedTuple):
    """A tensor at the moment it passes by: valid only during the callback."""

    slot: int
    tensor: Any
    source: Source | None
    """For an input, where it came from."""


class ValueStats(NamedTuple):
    """Statistics of one value."""

    call: Call
    io: IO
    slot: int
    dtype: str
    shape: tuple[int, ...]
    row: Row


class Want(enum.IntFlag):
    """The things a sink can want of a node."""

    NOTHING = 0
    INPUT_STATS = shared.INPUT_STATS
    OUTPUT_STATS = shared.OUTPUT_STATS
    INPUT_VALUES = shared.INPUT_VALUES
    OUTPUT_VALUES = shared.OUTPUT_VALUES
    OUTSIDE_STATS = shared.OUTSIDE_STATS
    """Statistics of the inputs that come from outside the step (parameters, batch, ...), but for
    an optimizer's state: its row is that of the output that wrote it in the step before."""
    PARAMETERS = shared.PARAMETERS
    """Parameters and buffers this node reads, each once per step, before it runs."""
    ARGUMENTS = shared.ARGUMENTS
    """`Node.arguments` as they are in each call, not only in the first."""


class StepSoFar(Protocol):
    """The step under way, for those who ask: in most steps nobody does."""

    @property
    def may_be_bad(self) -> bool:
        """False if none of its rows counts NaN or Inf."""

    def calls(self) -> Calls:
        """The calls so far."""

    def rows(self) -> Sequence[Rows]:
        """All rows so far; none if they are late."""

    def losses(self) -> Sequence[LossRecord]:
        """The losses so far; none if they are late."""


class Sink(Protocol):
    """A receiver of events. Callbacks run in the training process with capture off.

    The order in a step is: step_begin, then inputs and outputs per call, then stats, then step_end.
    Statistics of a GPU come late: stats and step_end of a step may come after the step_begin of
    the next one, unless some sink wants values.
    A sink never raises because of the outside world (disk, network): it says what happened and
    switches itself off by wanting nothing.
    """

    def open(self, rank: int) -> None:
        """Called once, before the first other callback, when the rank is known."""

    def wants(self, node: Node) -> Want:
        """Return what is wanted of a node; asked once, and again after `Pipeline.forget_plans`."""

    def wants_step(self, step: int) -> bool:
        """Tell whether anything of this step is wanted; asked at each step's begin."""

    def node(self, node: Node) -> None:
        """A call site was seen for the first time."""

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        """The inputs of a call, before the operator runs."""

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        """The outputs of a call, right after it ran."""

    def parameter(self, call: Call, source: Outside, tensor: Any) -> None:
        """A parameter or buffer at its first use in the step."""

    def kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        """Take in the dtype and shape that rows from here on call `number` in their `shape`."""

    def row_memory(self) -> RowMemory | None:
        """Return where rows are to be written, if this sink keeps them all; asked after `open`."""

    def stats(self, rows: Rows) -> None:
        """The rows of a step, or a part of them; also those that only other sinks want."""

    def before_update(
        self,
        so_far: StepSoFar,
        facts: Callable[[], Sequence[ParameterFact]],
        groups: Callable[[], Sequence[GroupFact]],
    ) -> None:
        """An optimizer is about to step."""

    def step_begin(self, step: int) -> None:
        """A step starts."""

    def step_end(self, record: StepRecord) -> None:
        """A step ended; every row of it has been delivered."""

    def close(self) -> None:
        """Capture is over; flush and finish."""


class BaseSink:
    """A sink that wants nothing and ignores everything: override what you need."""

    def open(self, rank: int) -> None:
        pass

    def wants(self, node: Node) -> Want:
        return Want.NOTHING

    def wants_step(self, step: int) -> bool:
        return True

    def node(self, node: Node) -> None:
        pass

    def inputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        pass

    def outputs(self, call: Call, values: Sequence[PassingValue]) -> None:
        pass

    def parameter(self, call: Call, source: Outside, tensor: Any) -> None:
        pass

    def kind(self, number: int, dtype: str, shape: tuple[int, ...]) -> None:
        pass

    def row_memory(self) -> RowMemory | None:
        return None

    def stats(self, rows: Rows) -> None:
        pass

    def before_update(
        self,
        so_far: StepSoFar,
        facts: Callable[[], Sequence[ParameterFact]],
        groups: Callable[[], Sequence[GroupFact]],
    ) -> None:
        pass

    def step_begin(self, step: int) -> None:
        pass

    def step_end(self, record: StepRecord) -> None:
        pass

    def close(self) -> None:
        pass
