"""Capture of a PyTorch program: its life and its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from torch import nn

from opscope.capture.backward import BackwardCalls
from opscope.capture.data_loading import DataLoading
from opscope.capture.guards import plain_torch
from opscope.capture.kept_state import KeptState
from opscope.capture.module_calls import ModuleCalls
from opscope.capture.python_stack import keep_chunks
from opscope.capture.taken_numbers import TakenNumbers
from opscope.capture.thread_state import FORWARD
from opscope.capture.torch_patches import TorchPatches
from opscope.capture.torch_program import NeverEndingTraining, TorchProgram
from opscope.capture.updates import Updates
from opscope.events import Snapshot, StepRecord
from opscope.interruptions import hear_at_once, postpone_handlers, uninterrupted
from opscope.pipeline import Pipeline


class TorchCapture:
    """Watches every operator of this process from `start` to `stop`; see protocol.py."""

    def __init__(
        self, pipeline: Pipeline, rank: Callable[[], int], with_class: bool = True
    ) -> None:
        self._pipeline = pipeline
        self._rank = rank
        self._program = program = TorchProgram(pipeline, self._end_step, with_class)
        self._watch = program.watch
        self._watch.on_setup_end = self._begin_training
        self._watch.on_forward = self._begin_forward
        self._clock = program.clock
        self.safe_points = program.safe_points
        self.networks = program.networks
        self.bad_outputs = program.watch.delivery.bad_outputs
        self._updates: Updates | None = None
        self._began = 0.0
        self._running = False
        self._is_safe = True
        self._unsafe: int | None = None
        """A step that ended where training could not be ended."""
        self.has_children = False

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Patch torch and begin with step 0."""
        self._running = True
        keep_chunks()
        postpone_handlers()
        program = self._program
        program.look()
        ModuleCalls(program)
        BackwardCalls(program, self._begin_forward, self._catch_up)
        self._updates = Updates(program)
        TorchPatches(program)
        TakenNumbers(program)
        DataLoading(program)
        self._begin_step(0)

    def stop(self, failed: bool = False) -> None:
        """End the step under way, take everything off and close the sinks."""
        if not self._running:
            return
        self._running = False
        if self._watch.has_calls and (self._pipeline.opened or not self.has_children):
            self._open()
            self._watch.delivery.finish_late()
            self._deliver_last(failed)
        self._program.threads.local.state.stepping = None
        self._set_recording(False)
        self._uninstall()
        self._pipeline.close()

    def abandon(self) -> None:
        """Look away and forget the sinks' files, in a forked child."""
        self._running = False
        self._watch.recording = False
        self._uninstall()

    def _uninstall(self) -> None:
        self._program.look_away()
        if self._updates is not None:
            self._updates.remove()
            self._updates = None
            hear_at_once()

    @property
    def step(self) -> int:
        """The step under way."""
        return self._watch.step

    @property
    def opened(self) -> bool:
        """True once an operator was seen and the sinks were opened."""
        return self._pipeline.opened

    def reconsider(self) -> None:
        """Ask the sinks anew what they want, from the step under way on."""
        if self._running:
            self._set_recording(self._pipeline.reconsider(self._watch.step))

    def not_part_of_training(self) -> AbstractContextManager[None]:
        """Return a block whose code on tensors is neither watched nor changes training."""
        return plain_torch()

    def name_classes(self, wanted: bool) -> None:
        """Name scopes that are new from here on with the class of their module, or without."""
        self._program.with_class = wanted

    def is_replicated(self) -> bool:
        """Tell whether a module runs as a replica of those of other ranks."""
        return any(
            isinstance(module, nn.parallel.DistributedDataParallel)
            for module in self._program.names.roots()
        )

    def link_recorder(self, link: int, on_recording: Callable[[bool], None]) -> None:
        """Tell the recorder at an address of operators, and whether they are; before `start`."""
        if self._program.native is not None:
            self._program.native.link_recorder(link)
            if link:
                self._program.on_recording = on_recording

    def bad_gradients(self) -> list[str]:
        """Return the parameters whose gradient, about to be used, is not finite."""
        return self._updates.bad_gradients() if self._updates is not None else []

    def hold_batch(self) -> None:
        """Keep the batch there is, since something looks wrong, if batches are kept."""
        if self._program.kept is not None:
            self._program.kept.hold()

    def keep_state(self) -> Callable[[], Snapshot]:
        """Remember the batch and the random states of each step; returns what takes a snapshot."""
        kept = self._program.kept = KeptState(self._program.names, self._clock.live)
        kept.held.writes = self._program.native
        self._pipeline.meter.on_write = kept.held.before_write
        self._watch.on_arrival = kept.add_batch

        def snapshot() -> Snapshot:
            with plain_torch():
                return kept.snapshot()

        return snapshot

    def mark_step(self) -> None:
        """`opscope.step()`: the script says that a step ends here."""
        if self._running:
            self._clock.mark()

    def _begin_training(self) -> None:
        for optimizer in self._clock.live():
            self._program.names.add_parameters(optimizer, of_modules=False)
        self._open()

    def _open(self) -> None:
        with plain_torch():  # rows of the setup are delivered now
            self._pipeline.open(self._rank())

    # ------------------------------------------------------------------ steps

    @uninterrupted
    def _begin_step(self, step: int) -> None:
        self._watch.begin_step(step)
        self._began = time.perf_counter()
        wanted = self._pipeline.begin_step(step)
        if self._program.kept is not None:
            with plain_torch():
                self._program.kept.begin_step(step, wanted)
        if wanted and step > 0:
            self._watch.end_setup()  # steps went by that were not recorded
        self._set_recording(wanted)

    def _end_step(self, skipped: bool) -> None:
        if not self._running:
            return
        if self._watch.recording:
            self._watch.end_setup()
            self._deliver_step(skipped, complete=True)
        ended = self._watch.step
        self._begin_step(ended + 1)
        if self._is_safe:
            self.safe_points(ended, False)
        else:
            self._unsafe = ended

    def _catch_up(self) -> None:
        """Tell of a step that ended inside an operator, now that training may be ended."""
        if self._unsafe is not None:
            ended, self._unsafe = self._unsafe, None
            self.safe_points(ended, False)

    def _begin_forward(self) -> None:
        """Begin a step inside an operator, where nothing may be raised."""
        self._program.threads.local.state.phase = FORWARD
        self._is_safe = False
        try:
            self._clock.forward_began()
        finally:
            self._is_safe = True

    def _deliver_last(self, failed: bool) -> None:
        """Deliver what there is of the step under way; no step is whole that failed."""
        complete = self._clock.is_whole and not failed
        rest = not complete and self._clock.trains_nothing_yet and self._watch.step > 0
        self._deliver_step(skipped=False, complete=complete, rest=rest and not self._watch.raised)

    @uninterrupted
    def _deliver_step(self, skipped: bool, complete: bool, rest: bool = False) -> None:
        step, calls = self._watch.step, self._watch.finish_step()
        seconds = time.perf_counter() - self._began
        losses, withheld = self._program.losses.take()

        def record() -> StepRecord:
            return StepRecord(step, calls, losses(), seconds, skipped or withheld(), complete, rest)

        with plain_torch(), NeverEndingTraining():
            self._pipeline.end_step(record)
        self._program.threads.end_step()

    def _set_recording(self, wanted: bool) -> None:
        # A step that is not recorded needs module calls only where they are what counts steps.
        counts_calls = self._running and not self._clock.has_optimizer
        self._program.set_recording(wanted, counts_calls)
