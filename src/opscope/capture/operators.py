"""The facts of a torch operator that follow from its schema, worked out once per overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opscope.native import shared

_UNDECLARED_MUTATIONS = {
    # Their schemas do not say that running_mean and running_var are written in training.
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
}
_UNDECLARED_VIEWS = {"aten::_unsafe_view", "aten::lift_fresh", "aten::lift"}
_IGNORED_NAMESPACES = {"profiler", "prim"}
_IGNORED = {"aten::detach_"}
"""Autograd's own bookkeeping: it computes nothing, and `torch.tensor` calls it."""
_COLLECTIVE_NAMESPACES = {"c10d", "_c10d_functional"}
_UNINITIALISED = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::empty_permuted",
    "aten::empty_quantized",
    "aten::new_empty",
    "aten::new_empty_strided",
}


_SAME_ELEMENTS = {
    "aten::view",
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::t",
    "aten::transpose",
    "aten::permute",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::alias",
    "aten::detach",
    "aten::lift_fresh",
    "aten::expand",
    "aten::slice",
    "aten::select",
}
"""Views that have the elements of what they view, if they have as many of the same type."""
_FILLING = {
    *("aten::zeros", "aten::zeros_like", "aten::new_zeros", "aten::zero_", "aten::zero"),
    *("aten::ones", "aten::ones_like", "aten::new_ones"),
    *("aten::full", "aten::full_like", "aten::new_full", "aten::fill_", "aten::fill"),
}


NEW, SEVERAL, VIEW = shared.NEW, shared.SEVERAL, shared.VIEW
WRITE, NOTHING, GENERAL = shared.WRITE, shared.NOTHING, shared.GENERAL
"""The result of an operator: one or several new tensors, one view of its first input, the one
tensor it writes to, no tensor, or anything else."""


class Operator:
    """One operator overload: its names, and which arguments it writes to."""

    __slots__ = (
        "argument_names",
        "asynchronous",
        "call",
        "completes",
        "converts",
        "defaults",
        "fills",
        "fresh",
        "ignored",
        "kind",
        "mutated",
        "name",
        "nested",
        "op_type",
        "same_elements",
        "uninitialised",
        "view",
        "waits",
        "writes",
    )

    def __init__(self, name: str, schema: Any, call: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.call = call
        """The function that runs it, if running it is up to us."""
        full = schema.name if schema is not None else name
        namespace, _, base = full.rpartition("::")
        self.op_type = base if namespace in ("aten", "") else f"{namespace}_{base}"
        self.ignored = namespace in _IGNORED_NAMESPACES or full in _IGNORED
        # What completes a collective: a wait, or the copy that some backends end with.
        self.completes = full in ("_c10d_functional::wait_tensor", "aten::copy_")
        self.waits = full == "_c10d_functional::wait_tensor"
        self.asynchronous = namespace in _COLLECTIVE_NAMESPACES and not self.waits
        self.uninitialised = full in _UNINITIALISED
        arguments = () if schema is None else schema.arguments
        self.argument_names = tuple(a.name for a in arguments)
        self.defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
        self.fresh = full == "aten::lift_fresh"  # its input was made without an operator
        self.nested = self.fresh or any(
            "Tensor" in str(a.type) and (a.kwarg_only or isinstance(a.type, torch.ListType))
            for a in arguments
        )
        self.mutated: tuple[tuple[int, str], ...] = tuple(
            (index, a.name)
            for index, a in enumerate(arguments)
            if (a.alias_info is not None and a.alias_info.is_write)
            or (namespace == "c10d" and a.name.startswith("output"))
            or a.name in _UNDECLARED_MUTATIONS.get(full, ())
        )
        returns: Any = () if schema is None else schema.returns
        self.view = full in _UNDECLARED_VIEWS or any(
            r.alias_info is not None and not r.alias_info.is_write for r in returns
        )
        self.writes = bool(self.mutated)
        self.same_elements = full in _SAME_ELEMENTS
        self.converts = full == "aten::_to_copy"
        self.fills = full in _FILLING
        """True if its output is memory that kernels of the user's are likely to write to next."""
        tensors = any("Tensor" in str(r.type) for r in returns)
        single = (
            len(returns) == 1
            and str(returns[0].type) == "Tensor"
            and not (self.asynchronous or self.waits)
        )
        self.kind = GENERAL if tensors or self.writes else NOTHING
        if single and not self.writes:
            self.kind = VIEW if self.view else NEW
        elif tensors and not (
            single or self.writes or self.view or self.asynchronous or self.waits
        ):
            plain = all(str(r.type) == "Tensor" for r in returns)
            self.kind = SEVERAL if plain else GENERAL
        elif single and len(self.mutated) == 1 and self.mutated[0][0] == 0 and not self.view:
            self.kind = WRITE

    @staticmethod
    def of(func: Any) -> Operator:
        """The operator that a dispatch mode is asked to run."""
        # `_op` saves the Python frame of `OpOverload.__call__`.
        return Operator(str(func), getattr(func, "_schema", None), getattr(func, "_op", func))

    @staticmethod
    def named(name: str, overload: str) -> Operator:
        """The operator with this name, such as `aten::add`, and overload."""
        schema = torch._C._get_schema(name, overload)
        return Operator(f"{name.replace('::', '.')}.{overload or 'default'}", schema)

    def call_plainly(self, *args: Any, **kwargs: Any) -> Any:
        """Run it without asking the classes of its arguments, which were asked before us."""
        assert self.call is not None
        with torch._C.DisableTorchFunctionSubclass():
            return self.call(*args, **kwargs)

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        """The tensors this call writes to, lists flattened."""
        found: list[Any] = []
        for index, name in self.mutated:
            flatten(args[index] if index < len(args) else (kwargs or {}).get(name), found)
        return found

    def produced(
        self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> list[Any]:
        """The outputs of a call by slot: what it returned, or None, then what else it wrote to."""
        found: list[Any] = []
        if isinstance(result, (list, tuple)) and self.kind == SEVERAL:
            found += result
        else:
            flatten(result, found)
        if self.writes:
            returned = {id(tensor) for tensor in found}
            found += [t for t in self.written(args, kwargs) if id(t) not in returned]
        return found

    def texts(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> dict[str, str]:
        """Non-tensor arguments by name, as text; those that were not given have their defaults."""
        named = self.defaults | dict(zip(self.argument_names, args, strict=False))
        named.update(kwargs or {})
        return as_texts({name: value for name, value in named.items() if not _is_tensors(value)})


def as_texts(values: dict[str, Any]) -> dict[str, str]:
    """Arguments as a person would write them."""
    return {name: _text(value) for name, value in values.items()}


def flatten(value: Any, into: list[Any]) -> None:
    """Append the tensors in `value`, which may be a tensor, a list of them or lists of lists."""
    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            flatten(item, into)


def _is_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, torch.Tensor) for item in value)
    return False


def _text(value: Any) -> str:
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    return type(value).__name__
