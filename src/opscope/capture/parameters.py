"""Names of the tensors that live longer than a step: parameters, buffers, optimizer state."""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from opscope.events import Outside, ParameterFact

_UNNAMED = "unnamed."
"""Parameters that belong to no module, as far as is known."""


class TensorNames:
    """Tensor identity → name. An entry leaves when its tensor dies, so identities stay true."""

    def __init__(self, key: Callable[[Any], int] = id) -> None:
        self._key = key
        self.by_id: dict[int, Outside] = {}
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._taken: set[tuple[str, str]] = set()
        self._roots: dict[int, weakref.ref[nn.Module]] = {}
        self._sizes: dict[int, tuple[int, ...]] = {}
        """By optimizer, as long as it is alive: what it had when it was last looked at."""
        self._optimizers: dict[int, weakref.ref[torch.optim.Optimizer]] = {}
        self._unnamed = 0
        """So many numbers were given to parameters without a name."""
        self._numbers: dict[int, int] = {}
        """By tensor: the number of one without a name."""
        self._free: list[int] = []
        """The numbers of those that have died."""

    def add_root(self, module: nn.Module) -> None:
        """Name what an outermost module owns; the first module to own a tensor names it."""
        key = id(module)
        known = self._roots.get(key)
        if known is not None and known() is module:
            return
        # Programs make losses anew in each step: those that are gone leave nothing behind.
        self._roots[key] = weakref.ref(module, lambda ref: _leave(self._roots, key, ref))
        self._scan(module)

    def roots(self) -> Iterator[nn.Module]:
        """The outermost modules that are alive."""
        for ref in list(self._roots.values()):
            module = ref()
            if module is not None:
                yield module

    def buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every buffer that is known and alive, with its name."""
        return self._alive("buffer")

    def _scan(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            self._add("parameter", name, parameter, module)
        for name, buffer in module.named_buffers():
            self._add("buffer", name, buffer, module)

    def parameter(self, tensor: torch.Tensor) -> Outside:
        """The name of a parameter that may be newer than the last look at the modules."""
        found = self.by_id.get(self._key(tensor))
        if found is None:
            for module in self.roots():
                self._scan(module)
            found = self.by_id.get(self._key(tensor))
        if found is None:
            number = self._numbers[self._key(tensor)] = self._number()
            found = self._remember(tensor, "parameter", f"{_UNNAMED}{number}")
        return found

    def _number(self) -> int:
        """The least number that no unnamed parameter has, as many are made anew in each step."""
        if self._free:
            return heapq.heappop(self._free)
        self._unnamed += 1
        return self._unnamed - 1

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Name parameters that no module owns, and the optimizer's state as far as it exists."""
        groups, state = optimizer.param_groups, optimizer.state
        last = next(reversed(state.values()), None) if isinstance(state, dict) else None
        entries = len(last) if isinstance(last, dict) else 0
        size = (sum(len(group["params"]) for group in groups), len(state), entries)
        key = id(optimizer)
        if self._sizes.get(key) != size:
            self._sizes[key] = size
            self._optimizers[key] = weakref.ref(optimizer, lambda ref: self._dismiss(key, ref))
            self.add_parameters(optimizer)
            self._add_state(optimizer)

    def _dismiss(self, key: int, ref: weakref.ref[torch.optim.Optimizer]) -> None:
        if _leave(self._optimizers, key, ref):
            del self._sizes[key]

    def add_new_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Name what an optimizer has added to its state since it was last looked at.

        State is made for one parameter after the other, so what is new comes last.
        """
        if not isinstance(optimizer.state, dict):
            return
        for position, (parameter, state) in enumerate(reversed(optimizer.state.items())):
            if not self._add_state_of(parameter, state) and position:
                return

    def add_parameters(self, optimizer: torch.optim.Optimizer, of_modules: bool = True) -> None:
        """Name the parameters of an optimizer, without those a module may yet name."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                known = self._key(parameter) in self.by_id
                if not known and (of_modules or not isinstance(parameter, nn.Parameter)):
                    self.parameter(parameter)

    def parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter that is known and alive, with its name."""
        return self._alive("parameter")

    def _alive(self, kind: str) -> Iterator[tuple[str, torch.Tensor]]:
        for key, entry in list(self.by_id.items()):
            if entry.kind == kind and (tensor := self._refs[key]()) is not None:
                yield entry.name, tensor

    def requires_grad_of_modules(self) -> dict[int, bool]:
        """The `requires_grad` of modules, where it has no effect, for each of their parameters."""
        found: dict[int, bool] = {}
        for root in self.roots():
            for module in root.modules():
                said = module.__dict__.get("requires_grad")
                if isinstance(said, bool):
                    found.update((id(parameter), said) for parameter in module.parameters())
        return found

    def in_eval_mode(self) -> set[int]:
        """The parameters of networks that are in eval mode throughout, and should mind."""
        return {
            id(parameter)
            for root in self.roots()
            if not root.training and not any(module.training for module in root.modules())
            if any(_minds_mode(module) for module in root.modules())
            for parameter in root.parameters()
        }

    def _add_state(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter, state in optimizer.state.items():
            self._add_state_of(parameter, state)

    def _add_state_of(self, parameter: Any, state: Any) -> bool:
        """Name the state of one parameter; returns whether any of it is new."""
        owner = self.by_id.get(self._key(parameter))
        if owner is None or not isinstance(state, dict):
            return False
        new = [
            (key, tensor)
            for key, tensor in state.items()
            if isinstance(tensor, torch.Tensor) and self._key(tensor) not in self.by_id
        ]
        for key, tensor in new:
            self._remember(tensor, "state", f"{owner.name}.{key}", owner.name)
        return bool(new)

    def _add(self, kind: str, name: str, tensor: torch.Tensor, root: nn.Module) -> None:
        known = self.by_id.get(self._key(tensor))
        if known is not None and not known.name.startswith(_UNNAMED):
            return
        number, unique = 0, name
        while (kind, unique) in self._taken:
            unique = f"{type(root).__name__}{number or ''}.{name}"
            number += 1
        self._remember(tensor, kind, unique)

    def _remember(self, tensor: torch.Tensor, kind: str, name: str, subject: str = "") -> Outside:
        if kind == "parameter":
            subject = name
        entry = Outside(kind, name, subject)
        self._taken.add((kind, name))
        self._enter(tensor, entry)
        return entry

    def let_go(self, tensor: torch.Tensor) -> int:
        """Hold no reference to this tensor for a while; returns what it was known by."""
        key = self._key(tensor)
        self._refs.pop(key, None)
        return key

    def take_back(self, tensor: torch.Tensor, name: Outside) -> None:
        """Know a tensor again, by what it is known by now."""
        self._enter(tensor, name)

    def _enter(self, tensor: torch.Tensor, entry: Outside) -> None:
        key = self._key(tensor)
        self.by_id[key] = entry
        self._refs[key] = weakref.ref(tensor, lambda ref: self._forget(key, ref))

    def _forget(self, key: int, ref: weakref.ref[Any]) -> None:
        if _leave(self._refs, key, ref):
            entry = self.by_id.pop(key)
            self._taken.discard((entry.kind, entry.name))
            if (number := self._numbers.pop(key, None)) is not None:
                heapq.heappush(self._free, number)


def _leave(refs: dict[int, weakref.ref[Any]], key: int, ref: weakref.ref[Any]) -> bool:
    """Take out what has died, unless something else is at its address by now."""
    if refs.get(key) is not ref:
        return False
    del refs[key]
    return True


def _minds_mode(module: nn.Module) -> bool:
    """Tell whether a module does in eval mode what it does not in training."""
    drops = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
    return drops or isinstance(module, nn.modules.batchnorm._BatchNorm)


def parameter_facts(
    names: TensorNames,
    optimizers: Sequence[torch.optim.Optimizer],
    stepping: torch.optim.Optimizer | None,
    several_threads: bool = False,
) -> list[ParameterFact]:
    """Describe what training does with each parameter as `stepping` is about to step, if one is.

    Gradients of what another thread trains cannot be looked at: it may be replacing them just now.
    """
    owned = {id(p) for optimizer in optimizers for p in _owned(optimizer)}
    own = {id(p) for p in _owned(stepping)} if stepping is not None else set()
    said, in_eval = names.requires_grad_of_modules(), names.in_eval_mode()
    return [
        ParameterFact(
            name=name,
            frozen=not said.get(id(parameter), parameter.requires_grad),
            has_gradient=parameter.is_leaf
            and (not several_threads or id(parameter) in own)
            and parameter.grad is not None,
            owned=id(parameter) in owned,
            stepping=id(parameter) in own,
            in_eval=id(parameter) in in_eval,
        )
        for name, parameter in names.parameters()
    ]


def bad_gradients(names: TensorNames, stepping: torch.optim.Optimizer) -> list[str]:
    """Name the parameters of an optimizer whose gradient is not finite now."""
    own = {id(p) for p in _owned(stepping)}
    return [
        name
        for name, parameter in names.parameters()
        if id(parameter) in own and not _is_finite(parameter.grad)
    ]


def _is_finite(gradient: torch.Tensor | None) -> bool:
    if gradient is None or gradient.device.type == "meta":
        return True
    try:
        values = gradient.coalesce().values() if gradient.is_sparse else gradient
        return bool(torch.isfinite(getattr(values, "_local_tensor", values)).all().item())
    except (RuntimeError, NotImplementedError):
        return True  # of a kind that has no elements to look at


def _owned(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]
