"""The PyTorch program under capture, as the parts of its capture share it."""

from __future__ import annotations

from collections.abc import Callable

from opscope.capture import hook
from opscope.capture.failures import report_failure
from opscope.capture.fallback import Fallback
from opscope.capture.kept_state import KeptState
from opscope.capture.known import PythonKnownTensors
from opscope.capture.losses import Losses
from opscope.capture.observers import Observers
from opscope.capture.parameters import TensorNames
from opscope.capture.patches import Patches
from opscope.capture.steps import StepClock
from opscope.capture.threads import Threads
from opscope.capture.watching import OperatorWatch
from opscope.messages import say_once
from opscope.pipeline import Pipeline


class TorchProgram:
    """Its threads, names, operators, losses and steps; and whom to tell of what."""

    def __init__(
        self, pipeline: Pipeline, end_step: Callable[[bool], None], with_class: bool
    ) -> None:
        self.pipeline = pipeline
        self.with_class = with_class
        """True if new scopes have the class of their module in the name."""
        self.threads = Threads()
        row_function = pipeline.meter.engine.row_function
        self.native = hook.load() if row_function else None
        key = id if self.native is None else self.native.key
        known = PythonKnownTensors() if self.native is None else self.native.Known()
        self.names = TensorNames(key)
        self.watch = OperatorWatch(pipeline, self.threads, self.names, key, known)
        self.losses = Losses(self.watch)
        self.clock = StepClock(end_step)
        self.patches = Patches()
        self.kept: KeptState | None = None
        self.seen_by: hook.Hook | Fallback | None = None
        """The observer that tells of operators."""
        self.follows_modules = False
        self.on_recording: Callable[[bool], None] = lambda recording: None
        """Told whether operators are recorded, natively, with their scopes."""
        self.safe_points: Observers[int, bool] = Observers()
        """Told where training may be ended: of the step, and whether its update is to come."""
        self.networks: Observers[[]] = Observers()
        """Told where training may be ended, before an outermost module is called."""

    def look(self) -> None:
        """Observe operators: natively, or by a dispatch mode without native code."""
        if self.native is None:
            self.seen_by = Fallback(self.watch)
        else:
            row_function = self.pipeline.meter.engine.row_function
            self.seen_by = self.watch.hook = hook.Hook(self.native, self.watch, row_function)
        self.threads.on_many = self.pipeline.on_revision = self._tell_state

    def look_away(self) -> None:
        """Observe no more operators."""
        if self.seen_by is not None:
            self.seen_by.remove()
            self.seen_by = None
        self.follows_modules = False
        self.on_recording(False)
        self.patches.undo()

    def set_recording(self, wanted: bool, counts_calls: bool) -> None:
        """Switch the recording of operators; follow module calls also where they count steps."""
        if wanted != self.watch.recording:
            self.on_recording(wanted)
        self.watch.recording = wanted
        self.follows_modules = wanted or counts_calls
        self._tell_state()

    def _tell_state(self) -> None:
        if self.seen_by is not None:
            many, revision = self.threads.many, self.pipeline.revision
            self.seen_by.set_state(self.watch.recording, many, revision)


def say_compiled() -> None:
    """Say once that operators inside compiled regions are not seen."""
    say_once(
        "this program uses torch.compile: operators inside compiled regions are not looked "
        "into yet, only what runs outside them is recorded"
    )


class NeverEndingTraining:
    """Tells of what fails in this block, and lets training go on."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        report_failure(error)
        return True
