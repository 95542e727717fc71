"""Where a script's first non-finite value is born, told without opscope: `checker.py script.py`.

Slow and simple on purpose: a dispatch mode that tests all inputs and outputs of every operator.
"""

from __future__ import annotations

import math
import os
import re
import runpy
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_LIBRARIES = (str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), "<frozen", __file__)
_ENGINE = str(Path(torch.autograd.graph.__file__))
_LOADER = str(Path(torch.utils.data.__file__).parent)
_ON_PURPOSE = {"full", "full_like", "new_full", "fill_", "fill", "scalar_tensor"}
_ON_PURPOSE |= {"masked_fill", "masked_fill_", "where", "index_fill", "index_fill_", "index_put_"}
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_UNWRITTEN |= {"empty_permuted", "_ctc_loss"}  # its second output is not written everywhere


@dataclass
class Event:
    """A bad value that was born, or came in from outside."""

    op: str
    step: int
    file: str
    line: int
    entered: str | None = None
    backward: bool = False

    def __str__(self) -> str:
        entered = f" from={self.entered}" if self.entered else ""
        return f"op={self.op} step={self.step}{entered} at {self.file}:{self.line}"


@dataclass
class State:
    """What is known of the non-finite values in a storage."""

    kind: str  # "meant", "unwritten", "pending" (in a backward formula that may mask it) or "bad"
    event: Event | None = None
    node: object = None


class Steps:
    """Counts steps: the fewest that any optimizer has made."""

    def __init__(self, skipped: Callable[[], None]) -> None:
        self.skipped = skipped
        self.made: Counter[int] = Counter()
        register_optimizer_step_post_hook(lambda optimizer, *_: self.made.update([id(optimizer)]))
        init, scaler = torch.optim.Optimizer.__init__, torch.amp.GradScaler
        update, step = scaler.update, scaler.step
        tried: dict[int, int] = {}

        def new_init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            self.made[id(optimizer)] += 0

        def new_step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            tried[id(optimizer)] = self.made[id(optimizer)]
            return step(scaler, optimizer, *args, **kwargs)

        def new_update(*args: Any, **kwargs: Any) -> None:
            for key, before in tried.items():
                if self.made[key] == before:
                    self.skipped()
                self.made[key] = before + 1
            tried.clear()
            update(*args, **kwargs)

        torch.optim.Optimizer.__init__ = new_init
        scaler.step, scaler.update = new_step, new_update

    @property
    def now(self) -> int:
        return min(self.made.values(), default=0)


def is_dense(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided


def is_bad(tensor: Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and not bool(
        torch.isfinite(tensor).all()
    )


def has_nan(tensor: Tensor) -> bool:
    return bool(torch.isnan(tensor).any())


def key_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def is_user(file: str) -> bool:
    return not file.startswith(_LIBRARIES)


def where() -> tuple[str, int]:
    """The user's line: on the stack, or where the backward node was made."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user(file):
            return file, frame.f_lineno
        if file == _ENGINE:
            return forward_line()
        frame = frame.f_back
    return "?", 0


def forward_line() -> tuple[str, int]:
    node = torch._C._current_autograd_node()
    text = "".join((node.metadata if node is not None else {}).get("traceback_", []))
    found = [(f, int(n)) for f, n in re.findall(r'File "(.*?)", line (\d+)', text) if is_user(f)]
    return found[-1] if found else ("?", 0)


def is_loading() -> bool:
    """Whether this runs in a DataLoader, in this process."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(_LOADER):
        frame = frame.f_back
    return frame is not None


class Checker(TorchDispatchMode):
    """Finds events in order; `origin` is the first that something else came to read."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps(self._forgive)
        self.origin: Event | None = None
        self.events: list[Event] = []
        self.watching = False
        self.states: dict[int, State] = {}
        self.kept: list[Any] = []  # keeps storages from being reused
        self.names: dict[int, str] = {}
        nn.modules.module.register_module_forward_pre_hook(self._see_module)

    def _forgive(self) -> None:
        """A gradient scaler skipped this step because of its gradients, as it should."""
        if self.origin is not None and self.origin.backward:
            self.origin = None
            self.states.clear()

    def _see_module(self, module: nn.Module, _: Any) -> None:
        self.watching = True
        for name, tensor in module.named_parameters():
            self.names.setdefault(key_of(tensor), f"parameter:{name}")
        for name, tensor in module.named_buffers():
            self.names.setdefault(key_of(tensor), f"buffer:{name}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[-1]
        if not self.watching or self.origin is not None:
            return func(*args, **kwargs)
        inputs = [t for t in tree_leaves((args, kwargs)) if is_dense(t)]
        views = any(a.alias_info and not a.alias_info.is_write for a in func._schema.arguments)
        if name in ("lift_fresh", "set_", "_unsafe_view") or (views and inputs):
            return self._view(name, func(*args, **kwargs))
        if self._is_passed_on(inputs):
            return func(*args, **kwargs)
        states = self._states(inputs, name)
        had_nan = any(is_bad(t) and has_nan(t) for t in inputs)
        scalars = [v for v in tree_leaves((args, kwargs)) if isinstance(v, float)]
        result = func(*args, **kwargs)
        written = [t for t in inputs if func._schema.is_mutable]
        outputs = [t for t in tree_leaves(result) if is_dense(t)] + written
        self._judge(name, inputs, states, outputs, had_nan, any(map(math.isinf, scalars)))
        return result

    def _view(self, op: str, result: Any) -> Any:
        """A view reads nothing; memory that `set_` points to comes from outside."""
        for tensor in tree_leaves(result):
            if op == "set_" and isinstance(tensor, Tensor):
                self.states.pop(key_of(tensor), None)
        return result

    def _is_passed_on(self, inputs: list[Tensor]) -> bool:
        """Whether a loader passes on what is from outside: it enters where training reads it."""
        bad = [tensor for tensor in inputs if is_bad(tensor)]
        return bool(bad) and not any(key_of(t) in self.states for t in bad) and is_loading()

    def _states(self, inputs: list[Tensor], op: str) -> list[State]:
        """Of the inputs that are not sound."""
        found = []
        node = torch._C._current_autograd_node()
        for tensor in inputs:
            if not is_bad(tensor):
                continue
            state = self.states.get(key_of(tensor))
            if state is None and not has_nan(tensor) and not bool((tensor == math.inf).any()):
                state = State("meant")  # -Inf from outside is a mask
            elif state is None:
                kind, _, _ = self.names.get(key_of(tensor), "batch").partition(":")
                state = State("bad", Event(op, self.steps.now, *where(), kind))
                self.events.append(state.event)
            elif state.kind == "pending" and state.node is not node:
                self.origin = self.origin or state.event
            found.append(state)
        return found

    def _judge(
        self,
        op: str,
        inputs: list[Tensor],
        states: list[State],
        outputs: list[Tensor],
        had_nan: bool,
        infinite_scalar: bool,
    ) -> None:
        keys = {key_of(t) for t in inputs}
        for tensor in outputs:
            key = key_of(tensor)
            self.kept.append(tensor.untyped_storage())
            if op in _UNWRITTEN:
                self.states[key] = State("unwritten")
            if not is_bad(tensor):
                size = tensor.numel() * tensor.element_size()
                if key not in keys or size == tensor.untyped_storage().nbytes():
                    self.states.pop(key, None)
                continue
            before = self.states.get(key)
            if before is not None and before.kind == "unwritten":
                continue
            state = self._outcome(op, states, has_nan(tensor) and not had_nan, infinite_scalar)
            if key not in keys or before is None or before.kind == "meant":
                self.states[key] = state

    def _outcome(self, op: str, states: list[State], new_nan: bool, infinite: bool) -> State:
        for kind in ("bad", "pending", "unwritten"):
            for state in states:
                if state.kind == kind:
                    if kind == "bad":
                        self.origin = self.origin or state.event
                    return state
        if not new_nan and (states or op in _ON_PURPOSE or infinite):
            return State("meant")
        node = torch._C._current_autograd_node()
        event = Event(op, self.steps.now, *where(), backward=node is not None)
        self.events.append(event)
        if node is not None and where() == forward_line():
            return State("pending", event, node)
        self.origin = self.origin or event
        return State("bad", event)


def check(script: str, arguments: list[str]) -> Event | None:
    """Run a script and return the event its trouble began with."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    checker = Checker()
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        with checker:
            runpy.run_path(script, run_name="__main__")
    except Exception as error:  # noqa: BLE001
        print(f"raised {type(error).__name__}: {error}"[:150])
    return checker.origin


if __name__ == "__main__":
    rank = f"rank {os.environ['RANK']}: " if "RANK" in os.environ else ""
    print(f"{rank}origin: {check(sys.argv[1], sys.argv[2:])}", flush=True)
