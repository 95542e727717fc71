"""The state that a hit saves: batch and random states of a step, parameters, optimizers."""

from __future__ import annotations

import _random
import ctypes
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from opscope.capture.held_tensors import Held, HeldTensors
from opscope.capture.parameters import TensorNames
from opscope.events import Outside, Snapshot
from opscope.stats.devices import used_kinds

_BYTES = 256 << 20
"""More than this is not kept alive longer than the program would."""


class KeptState:
    """Holds on to a step's batch and random states until the next one begins.

    Of several passes it is the batch of the last, or of the one in which something began to look
    wrong.
    """

    def __init__(
        self, names: TensorNames, optimizers: Callable[[], Sequence[torch.optim.Optimizer]]
    ) -> None:
        self._names = names
        self._optimizers = optimizers
        self.held = HeldTensors()
        self._batch: dict[str, tuple[Held, int]] = {}
        """By name, with how often a network had been called in the step when it came."""
        self._called = 0
        self._rng: RandomStates | None = None
        self._step = 0
        self._room = _BYTES
        self._is_over = False
        self._holds = False

    def begin_step(self, step: int, wanted: bool = True) -> None:
        """Let go of the last step's batch; take the random states of a step that is watched."""
        self._step = step
        self._holds = False
        self._let_go()
        if wanted:
            self._rng = RandomStates()

    def add_batch(self, tensor: Tensor, outside: Outside) -> None:
        """Hold on to a tensor that came in from outside, as part of the batch."""
        if outside.kind != "batch" or self._holds or tensor.grad_fn is not None:
            return
        if self._is_over:
            self._let_go()
        size = tensor.numel() * tensor.element_size()
        if any(held.is_of(tensor) for held, _ in self._batch.values()) or size > self._room:
            return
        self._room -= size
        name, number = outside.name, 1
        while name in self._batch:
            number += 1
            name = f"{outside.name}#{number}"
        self._batch[name] = self.held.hold(tensor), self._called

    def begin_pass(self) -> None:
        """Let go of the batch of the pass before: what was there at the network's last call."""
        if self._holds:
            return
        came_since = [
            (name.partition("#")[0], held.tensor)
            for name, (held, called) in self._batch.items()
            if called == self._called
        ]
        self._let_go()
        for name, tensor in came_since:
            self.add_batch(tensor, Outside("batch", name))

    def network_called(self) -> None:
        """Note that the network has been given its batch."""
        self._called += 1

    def end_backward(self) -> None:
        """Take what comes in from now on as another micro-batch."""
        self._is_over = True

    def hold(self) -> None:
        """Keep the batch until the step ends, since something looks wrong."""
        self._holds = True

    def _let_go(self) -> None:
        self._batch.clear()
        self.held.clear()
        self._room = _BYTES
        self._is_over = False

    def snapshot(self) -> Snapshot:
        """The state as it is now."""
        optimizers = list(self._optimizers())
        return Snapshot(
            batch={name: held.tensor for name, (held, _) in self._batch.items()},
            rng=self._rng.tensors() if self._rng is not None else {},
            parameters=dict([*self._names.parameters(), *self._names.buffers()]),
            optimizer=_optimizer_tensors(optimizers, self._names),
            facts={
                "taken_in_step": self._step,
                "optimizers": [_facts(optimizer) for optimizer in optimizers],
            },
        )


class RandomStates:
    """The states of torch's, Python's and NumPy's generators; tensors only when asked for."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        # `random.getstate` makes 625 numbers, and `numpy.random.get_state` takes longer still.
        now = _python_state()
        self._python = random.getstate() if now is None else bytes(now)
        now = _numpy_state(numpy.random.get_bit_generator())  # type: ignore[attr-defined]
        self._numpy = None if now is None else bytes(now)
        self._devices = {
            f"{name}:{index}": state
            for name, kind in used_kinds(torch)
            for index, state in enumerate(kind.random_states(torch))
        }

    def tensors(self) -> dict[str, Tensor]:
        """Each state under the name of what has it."""
        states = {"torch": self._torch}
        if isinstance(self._python, bytes):
            position, *numbers = memoryview(self._python).cast("I")
            states["python"] = _whole([*numbers, position])
        elif self._python[0] == 3:
            states["python"] = _whole(self._python[1])
        if self._numpy is not None:
            states["numpy"] = _whole(memoryview(self._numpy).cast("I"))
        return states | self._devices


_State = ctypes.c_uint32 * 625
"""The 624 numbers of a generator of the usual kind, and its position among them."""


@functools.cache
def _python_state() -> ctypes.Array[ctypes.c_uint32] | None:
    """The state of Python's generator where it is: its position first; None if it is elsewhere."""
    generator = random.getstate.__self__  # type: ignore[attr-defined]
    head = object.__basicsize__
    if _random.Random.__basicsize__ < head + ctypes.sizeof(_State):
        return None
    found = _State.from_address(id(generator) + head)
    version, numbers, _ = random.getstate()
    return found if version == 3 and numbers == (*found[1:], found[0]) else None


@functools.lru_cache(maxsize=1)
def _numpy_state(generator: Any) -> ctypes.Array[ctypes.c_uint32] | None:
    """The state of a generator of NumPy where it is, which changes; None if it is another kind."""
    if type(generator).__name__ != "MT19937":
        return None
    return _State.from_address(generator.ctypes.state_address)


def _whole(numbers: Sequence[int] | memoryview) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")


def _optimizer_tensors(
    optimizers: Sequence[torch.optim.Optimizer], names: TensorNames
) -> dict[str, Tensor]:
    by_id = {id(parameter): name for name, parameter in names.parameters()}
    found = {}
    for number, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state.items():
            if not isinstance(state, dict):
                continue
            owner = by_id.get(id(parameter), "unnamed")
            for key, value in state.items():
                if isinstance(value, Tensor):
                    found[f"{number}/{owner}/{key}"] = value
    return found


def _facts(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    groups = [
        {key: value for key, value in group.items() if _is_plain(value)}
        for group in optimizer.param_groups
    ]
    return {"class": type(optimizer).__name__, "groups": groups}


def _is_plain(value: object) -> bool:
    """Tell whether a setting can be written as it is; `betas` are a tuple."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str | bool | None)
