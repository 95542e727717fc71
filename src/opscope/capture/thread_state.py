"""What capture keeps per thread: the scope it is in, the phase, and autograd's numbering."""

from __future__ import annotations

import sys
import threading
from types import FrameType

import torch

from opscope.capture.scopes import Scope
from opscope.events import Node, Phase

# Small integers instead of `Phase` members: they are part of a key that is hashed per operator.
SETUP, FORWARD, BACKWARD, OPTIMIZER, EVAL, TAIL = range(6)
"""TAIL is the stretch between backward and the optimizer, where clipping happens."""
PHASES = (
    Phase.SETUP,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER,
    Phase.EVAL,
    Phase.OPTIMIZER,
)

_KEPT_NUMBERS = 1 << 16
RESERVED = -1 << 32
"""Stands for the last number while numbers are reserved: no operator can have made so many."""


class Site:
    """A call site: its nodes, one per call of it within a step.

    There is one per node in most programs, so it is kept small: a garbage collection visits it.
    """

    __slots__ = ("calls", "codes", "first", "more", "step")

    def __init__(self, frame: FrameType | None, user: FrameType | None, first: Node) -> None:
        # Kept alive, since their addresses are part of the site's key.
        self.codes = None
        if frame is not None and user is not None:
            self.codes = (frame.f_code, user.f_code)
        self.first = first
        self.more: list[Node] | None = None
        self.step = -1
        self.calls = 0

    def add(self, node: Node) -> None:
        """A call of this site more often than in any step before."""
        if self.more is None:
            self.more = []
        self.more.append(node)


def _started_by_python() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in ("<module>", "_bootstrap"):
            return True
        frame = frame.f_back
    return False


class ThreadState:
    """The state of one thread."""

    __slots__ = (
        "admitted",
        "autograd",
        "backward_base",
        "backward_depth",
        "by_key",
        "depth",
        "home",
        "ident",
        "last_number",
        "needs_mode",
        "node_of_number",
        "number_base",
        "pending_view",
        "phase",
        "previous",
        "pushed",
        "reserved",
        "scope",
        "stepping",
    )

    def __init__(self, root: Scope) -> None:
        self.ident = threading.get_ident()
        self.admitted = False
        """Whether it has run an operator."""
        self.home: ThreadState | None = None
        """The one thread whose autograd numbers it meets in backward, if there is only one."""
        self.scope = root
        self.phase = SETUP
        self.depth = 0
        self.pushed = False
        """Whether its operators are watched."""
        self.by_key = False
        """Whether that is by a dispatch key, natively, and not by the mode."""
        self.needs_mode = False
        self.stepping: torch.optim.Optimizer | None = None
        # A thread that Python did not start belongs to the autograd engine.
        self.autograd = not _started_by_python()
        self.backward_depth = 1 if self.autograd else 0
        self.backward_base = root
        self.pending_view = False
        self.previous: Node | None = None
        self.reserved: list[int] = []
        self.last_number: int
        self.number_base: int
        self.node_of_number: list[Node | None]
        self.resume_numbering()

    def resume_numbering(self) -> None:
        """Start attributing autograd nodes from here; earlier ones were not watched."""
        self.last_number = torch.autograd._get_sequence_nr()
        self.number_base = self.last_number
        self.node_of_number = []
        self.reserved.clear()
        self.pending_view = False

    def number_nodes(self, now: int, node: Node) -> None:
        """Autograd nodes made since the last operator belong to `node`.

        The first of them belongs to the operator before, if that wrote in place to a view: its
        CopySlices node gets its number only after the operator ran.
        """
        if self.last_number == RESERVED:
            for index in self.reserved:
                self.node_of_number[index] = node
            self.reserved.clear()
            self.last_number = self.number_base + len(self.node_of_number)
        made = now - self.last_number
        if made < 0 or made > _KEPT_NUMBERS:
            self.resume_numbering()
            return
        numbers = self.node_of_number
        if self.pending_view:
            numbers.append(self.previous)
            made -= 1
        numbers.extend([node] * made)
        self.last_number = now

    def reserve_numbers(self) -> None:
        """The numbers made so far belong to the next operator but for those of a hook."""
        if self.last_number == RESERVED:
            self.last_number = self.number_base + len(self.node_of_number)
        made = torch.autograd._get_sequence_nr() - self.last_number
        if 0 < made <= _KEPT_NUMBERS:
            first = len(self.node_of_number)
            self.reserved += range(first, first + made)
            self.node_of_number += [None] * made
            self.last_number += made

    def keep_reserved(self) -> None:
        """The hook is over: the next operator takes what was reserved."""
        if self.reserved:
            self.last_number = RESERVED

    def node_for(self, number: int) -> Node | None:
        """The forward node that made autograd node `number`, if this thread made it."""
        index = number - self.number_base
        if 0 <= index < len(self.node_of_number):
            return self.node_of_number[index]
        return None

    def forget_old_numbers(self) -> None:
        """Keep the latest numbers only, so that a long run does not grow."""
        surplus = len(self.node_of_number) - 8 * _KEPT_NUMBERS
        if surplus > 0:
            del self.node_of_number[:surplus]
            self.number_base += surplus
