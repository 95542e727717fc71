"""The calls a session makes on a capture, whatever the framework."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from opscope.capture.observers import Observers
from opscope.events import Snapshot


class Capture(Protocol):
    """Watches every operator of this process and tells a pipeline of them."""

    has_children: bool
    """True if ranks may run in children: then this process leaves the ranks' files to them."""

    @property
    def safe_points(self) -> Observers[int, bool]:
        """Told where training may be ended: of the step, and whether its update is to come."""

    @property
    def networks(self) -> Observers[[]]:
        """Told where training may be ended, before an outermost network is called."""

    @property
    def bad_outputs(self) -> Any:
        """Told of outputs with NaN or Inf while they are at hand; to be added to before `start`."""

    @property
    def step(self) -> int:
        """The step under way."""

    @property
    def opened(self) -> bool:
        """True once an operator was seen and the sinks were opened."""

    def not_part_of_training(self) -> AbstractContextManager[None]:
        """Return a block whose code on tensors is neither watched nor changes training."""

    def start(self) -> None:
        """Begin with step 0."""

    def stop(self, failed: bool = False) -> None:
        """End the step under way, in which the program may have failed; close the sinks."""

    def abandon(self) -> None:
        """Look away and forget the sinks' files, in a forked child."""

    def reconsider(self) -> None:
        """Ask the sinks anew what they want, from the step under way on."""

    def mark_step(self) -> None:
        """End the step here, as the script says."""

    def name_classes(self, wanted: bool) -> None:
        """Name scopes that are new from here on with the class of their module, or without."""

    def is_replicated(self) -> bool:
        """Tell whether a module runs as a replica of those of other ranks."""

    def link_recorder(self, link: int, on_recording: Callable[[bool], None]) -> None:
        """Tell the recorder at an address of operators, and whether they are; before `start`."""

    def bad_gradients(self) -> list[str]:
        """Return the parameters whose gradient, about to be used, is not finite."""

    def hold_batch(self) -> None:
        """Keep the batch there is, since something looks wrong, if batches are kept."""

    def keep_state(self) -> Callable[[], Snapshot]:
        """Remember batch and random states of each step; returns what takes a snapshot."""
