"""Patches for what observing operators alone would misunderstand or disturb in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.dlpack
from torch import Tensor, nn

from opscope.capture.direct_calls import see_direct_calls
from opscope.capture.fallback import Fallback
from opscope.capture.guards import quiet
from opscope.capture.torch_program import TorchProgram, say_compiled

_UNSEEN_MAKERS = (
    (torch, "frombuffer"),
    (nn.Parameter, "__new__"),
    (torch, "from_dlpack"),
    (torch.utils.dlpack, "from_dlpack"),
    (torch._utils, "_rebuild_tensor"),
)


class TorchPatches:
    """Checkpoints, pack hooks, swapped tensors, tensors that no operator made, compiling."""

    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        wrap = program.patches.wrap
        wrap(torch, "compile", self._compile)
        wrap(torch.utils, "swap_tensors", self._swap_tensors)
        wrap(torch.autograd.graph.saved_tensors_hooks, "__init__", self._saved_tensors_hooks)
        for owner, name in _UNSEEN_MAKERS:
            wrap(owner, name, self._maker)
        self._patch_checkpoint()
        if isinstance(program.seen_by, Fallback):
            for name in ("trace", "trace_module"):
                wrap(torch.jit, name, self._unwatched)
        else:
            see_direct_calls(program.patches)

    def _saved_tensors_hooks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Operators of a pack hook run inside the operator whose tensors they pack."""

        def __init__(hooks: Any, pack: Callable[..., Any], unpack: Any) -> None:  # noqa: N807
            @functools.wraps(pack)
            def watched_pack(tensor: Tensor) -> Any:
                seen_by = self._program.seen_by
                if seen_by is None:
                    return pack(tensor)
                entered, raised = seen_by.enter_hook(), True
                try:
                    packed = pack(tensor)
                    raised = False
                finally:
                    seen_by.leave_hook(entered, raised)
                return packed

            original(hooks, watched_pack, unpack)

        return __init__

    def _patch_checkpoint(self) -> None:
        """Have a checkpoint run again in backward in the scope it first ran in."""
        module = torch.utils.checkpoint
        name = "_checkpoint_without_reentrant_generator"
        if hasattr(module, f"{name}_impl"):  # from torch 2.15 on
            name = f"{name}_impl"
        generator = getattr(module, name)
        reentrant = module.CheckpointFunction

        @functools.wraps(generator)
        def start(function: Any, *args: Any, **kwargs: Any) -> Any:
            return generator(self._in_this_scope(function), *args, **kwargs)

        class CheckpointFunction(reentrant):  # type: ignore[misc, valid-type]
            @classmethod
            def apply(cls, function: Any, *args: Any) -> Any:
                return reentrant.apply(self._in_this_scope(function), *args)

        self._program.patches.wrap(module, name, lambda _: start)
        self._program.patches.set(module, "CheckpointFunction", CheckpointFunction)

    def _in_this_scope(self, function: Callable[..., Any]) -> Callable[..., Any]:
        here = self._program.threads.local.state.scope
        depth = self._program.threads.local.state.depth

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            state = self._program.threads.local.state
            before = state.scope, state.depth
            state.scope, state.depth = here, depth
            try:
                return function(*args, **kwargs)
            finally:
                state.scope, state.depth = before

        return run

    def _swap_tensors(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """torch refuses to swap tensors that others hold weak references to, as we do."""

        def swap_tensors(one: Tensor, other: Tensor) -> None:
            with quiet():
                keys = [self._program.names.let_go(tensor) for tensor in (one, other)]
                for tensor in (one, other):
                    self._program.watch.forget(tensor)
            try:
                original(one, other)
            finally:
                with quiet():
                    named = [self._program.names.by_id.pop(key, None) for key in keys]
                    for tensor, name in zip((one, other), named, strict=True):
                        if name is not None:
                            self._program.names.take_back(tensor, name)

        return swap_tensors

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            say_compiled()
            return original(*args, **kwargs)

        return compile

    def _maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that makes a tensor without an operator."""

        def make(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if self._program.watch.recording and not (args and isinstance(args[0], Tensor)):
                self._program.watch.forget(made)
            return made

        return make

    def _unwatched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Tracing does not work under a dispatch mode."""

        def run(*args: Any, **kwargs: Any) -> Any:
            counts_calls = self._program.follows_modules
            recording = self._program.watch.recording
            self._program.set_recording(False, counts_calls)
            try:
                return original(*args, **kwargs)
            finally:
                self._program.set_recording(recording, counts_calls)

        return run
