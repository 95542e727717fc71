"""The end of steps, told from hooks and patches: after every live optimizer has stepped.

Without any optimizer a step ends where the next one begins: at the call of a network after a
backward or, as long as nothing has run backward, at a call from the same place again.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from opscope.capture.guards import quiet
from opscope.messages import say_once

_PATIENCE = 32
"""An optimizer that stays still while another steps this often no longer counts."""

_NEW = object()
"""Stands for an optimizer that nothing has followed."""
_IDLE = 256
"""So many backward passes before any update are no accumulation of gradients."""


class StepClock:
    """Decides where steps end."""

    def __init__(self, end_step: Callable[[bool], None]) -> None:
        self._end_step = end_step
        self.on_idle: Callable[[], None] = lambda: None
        """Called when it turns out that optimizers are there, but none ever steps."""
        self._has_stepped = False
        self._backwards = 0
        """The number of backwards before any optimizer stepped."""
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._used: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those that have ever stepped."""
        self._followed: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()
        """Those that had stepped when another was made, and the gradients they have."""
        self._threads: weakref.WeakKeyDictionary[Any, weakref.ref[threading.Thread]] = (
            weakref.WeakKeyDictionary()
        )
        """Those that have stepped, and the thread that each stepped in last."""
        self._alone: weakref.ref[Any] | None = None
        """The only optimizer there is: its steps are those of training."""
        self._stepped: dict[int, int] = {}
        self._attempted: set[int] = set()
        self._made = 1
        """The number of optimizers made since garbage was last collected."""
        self._worth = 1
        """So many must have been made for it to be worth another look."""
        self._manual = False
        self._by_optimizer = False
        self._trains = False
        """True once anything has run backward."""
        self._went_backward = False
        self._trained_network = False
        self._places: set[object] = set()
        """From where networks were called in the step under way."""

    @property
    def has_optimizer(self) -> bool:
        """True if any optimizer is alive."""
        return len(self._optimizers) > 0

    @property
    def awaits_forward(self) -> bool:
        """True if a backward has ended, but no call of a network will tell when a step begins."""
        return self._counts_calls and self._went_backward and not self._places

    @property
    def is_whole(self) -> bool:
        """True if the step under way has all it needs, should the program end here."""
        if self._by_optimizer or not self._counts_calls:
            return False
        return self._went_backward or (not self._trains and bool(self._places))

    @property
    def trains_nothing_yet(self) -> bool:
        """True if the step under way has nothing yet that trains: neither forward nor backward."""
        return not self._went_backward and not self._trained_network

    def live(self) -> list[Any]:
        """The optimizers that are alive."""
        return _all(self._optimizers)

    def add(self, optimizer: Any) -> None:
        """Wait for a new optimizer too."""
        for other in _all(self._used):
            self._followed[other] = self._gradient(other)
        self._optimizers.add(optimizer)
        self._made += 1
        self._alone = None

    def mark(self) -> None:
        """Leave it to the script from now on to say where a step ends."""
        self._manual, self._alone = True, None
        self._end(skipped=False)

    def stepped(self, optimizer: Any, inside_another: bool = False) -> None:
        """Count the step of an optimizer, made on its own or as a part of another one's."""
        alone = self._alone
        if alone is not None and alone() is optimizer and not inside_another:
            self._by_optimizer = True
            self._end(skipped=False)
            return
        self._optimizers.add(optimizer)
        self._used.add(optimizer)
        self._threads[optimizer] = weakref.ref(threading.current_thread())
        self._followed.pop(optimizer, None)
        key = id(optimizer)
        self._by_optimizer = self._has_stepped = True
        self._attempted.discard(key)
        steps = self._stepped[key] = self._stepped.get(key, 0) + 1
        if steps >= _PATIENCE:
            self._drop_idle(optimizer)
        if not inside_another:
            self._end_if_all(skipped=False)
        is_alone = not self._manual and not self._followed and len(self._optimizers) == 1
        self._alone = weakref.ref(optimizer) if is_alone else None

    def scaler_stepped(self, optimizer: Any) -> None:
        """Note that a gradient scaler was asked to step, which may skip the optimizer."""
        if id(optimizer) not in self._stepped:
            self._attempted.add(id(optimizer))

    def scaler_updated(self) -> None:
        """Count the optimizers that a gradient scaler skipped as stepped."""
        if not self._attempted:
            return
        self._has_stepped = True
        for key in _all(self._attempted):
            self._stepped[key] = self._stepped.get(key, 0) + 1
        self._attempted.clear()
        self._end_if_all(skipped=True)

    def network_called(self, find_place: Callable[[], object], trains: bool) -> None:
        """End the step if this call of a network begins another one."""
        place = None
        if self._backwards >= _IDLE and not self._has_stepped:
            self._give_up()
        if self._counts_calls:
            place = find_place()
            again = not self._trains and place in self._places
            if self._went_backward or again:
                self._by_optimizer = False
                self._end(skipped=False)
        self._places.add(place)
        self._trained_network |= trains

    def forward_began(self) -> None:
        """End the step if a forward without a network begins another one."""
        if self.awaits_forward:
            self._by_optimizer = False
            self._end(skipped=False)

    def backward_ended(self) -> None:
        """Note that the step has its gradients."""
        self._trains = self._went_backward = True
        self._backwards += not self._has_stepped

    @property
    def _counts_calls(self) -> bool:
        """True if steps are told from calls of networks, for lack of anything better."""
        if self._alone is not None and self._alone() is not None:
            return False
        return not self._manual and not self._optimizers

    def _end_if_all(self, skipped: bool) -> None:
        if self._manual:
            return
        if self._have_all_stepped() or (self._drop_garbage() and self._have_all_stepped()):
            self._end(skipped)

    def _drop_garbage(self) -> bool:
        """Collect what is waited for and may be garbage by now; returns whether any was.

        That takes a tenth of a second, and some programs make an optimizer for each task of a step.
        Where nothing was found, twice as many must be made before it is looked for again.
        """
        if self._made < self._worth:
            return False
        before = len(self._optimizers)
        gc.collect()
        found = len(self._optimizers) < before
        self._made, self._worth = 0, 1 if found else 2 * self._worth
        return found

    def _have_all_stepped(self) -> bool:
        """Tell whether all parameters that are optimized have been updated.

        An optimizer whose parameters another one has updated is not waited for: people train with
        Adam first and go on with LBFGS. Nor is one that another has followed and that has no new
        gradients: a cell of a notebook that was interrupted leaves its own alive.
        """
        optimizers = _all(self._optimizers)
        waiting = [
            each for each in optimizers if id(each) not in self._stepped and not self._is_left(each)
        ]
        if not waiting:
            return True
        stepped = [each for each in optimizers if id(each) in self._stepped]
        updated = {id(parameter) for each in stepped for parameter in _parameters(each)}
        return all(id(parameter) in updated for each in waiting for parameter in _parameters(each))

    def _is_left(self, optimizer: Any) -> bool:
        before = self._followed.get(optimizer, _NEW)
        return before is not _NEW and before == self._gradient(optimizer)

    def _gradient(self, optimizer: Any) -> object:
        """Return the first gradient as it is now, which is another where there are new ones.

        Gradients of what another thread trains cannot be looked at: it may be replacing them just
        now. They are taken for new ones, until that thread has ended.
        """
        trained_by = self._threads.get(optimizer)
        thread = None if trained_by is None else trained_by()
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            return object()
        return _gradient(optimizer)

    def _end(self, skipped: bool) -> None:
        for other in _all(self._followed) if self._alone is None else ():
            self._followed[other] = self._gradient(other)
        self._stepped.clear()
        self._attempted.clear()
        self._places.clear()
        self._went_backward = self._trained_network = False
        self._end_step(skipped)

    def _give_up(self) -> None:
        """Count steps without optimizers of which none has ever stepped."""
        self._backwards = 0
        if self._manual or not self._optimizers:
            return
        self.on_idle()
        names = ", ".join(sorted({type(each).__name__ for each in _all(self._optimizers)}))
        self._optimizers.clear()
        say_once(
            f"{names} has not stepped in {_IDLE} backward passes: is optimizer.step() missing? "
            "Steps are counted by the calls of the network from here on"
        )

    def _drop_idle(self, busy: Any) -> None:
        for other in _all(self._optimizers):
            if other is not busy and id(other) not in self._stepped:
                self._optimizers.discard(other)
                say_once(
                    f"{type(other).__name__} has not stepped while {type(busy).__name__} made "
                    f"{_PATIENCE} steps: steps are counted without it"
                )


def _all(those: Iterable[Any]) -> list[Any]:
    """List what is there just now; another thread may add to it meanwhile."""
    while True:
        try:
            return list(those)
        except RuntimeError:  # it has: that takes no longer than to list them once more
            continue


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _gradient(optimizer: Any) -> tuple[int, int] | None:
    """Return the first gradient as it is now, which is another where there are new ones."""
    with quiet():
        gradients = (parameter.grad for parameter in _parameters(optimizer))
        first = next((each for each in gradients if each is not None), None)
        if first is None:
            return None
        return id(first), 0 if first.is_inference() else first._version
