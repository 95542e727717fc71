"""The marks a script sets with `opscope.set_dump`: modules with all inside them, and operators."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from opscope.errors import OpscopeError
from opscope.names import module_scope, parent_of

if TYPE_CHECKING:
    from opscope.events import Node


class Marks:
    """The marks of this process: an operator's own decides, then that of the innermost module."""

    def __init__(self) -> None:
        self._modules: dict[int, tuple[weakref.ref[Any], bool]] = {}
        self._operators: dict[str, bool] = {}

    def set(self, target: Any, enabled: bool) -> None:
        """Mark a module, an optimizer or an operator, or take its mark off."""
        import torch

        if isinstance(target, torch.nn.Module):
            for module in target.modules():
                self._modules[id(module)] = weakref.ref(module), enabled
        elif isinstance(target, torch.optim.Optimizer):
            self._modules[id(target)] = weakref.ref(target), enabled
        elif isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            self._operators[str(target)] = enabled
        else:
            raise OpscopeError(
                "set_dump takes a module, an optimizer or an operator such as torch.ops.aten.mm,"
                f" not {type(target).__name__}"
            )

    def __bool__(self) -> bool:
        return bool(self._modules or self._operators)

    def clear(self) -> None:
        """Forget all marks."""
        self._modules.clear()
        self._operators.clear()

    def select(self, node: Node) -> bool:
        """Tell whether an operator is marked, by itself or by a module it runs in or belongs to."""
        by_operator = self._of_operator(node.op)
        if by_operator is None and node.forward is not None:
            by_operator = self._of_operator(node.forward.op)
        return by_operator if by_operator is not None else self._of_scope(node.scope)

    def _of_operator(self, op: str) -> bool | None:
        packet = op.rpartition(".")[0]
        return self._operators.get(op, self._operators.get(packet))

    def _of_scope(self, scope: str) -> bool:
        from opscope.capture.scopes import scope_at

        scope = module_scope(scope)
        while scope:
            found = scope_at(scope)
            module = None if found is None else found.module()
            mark = None if module is None else self._modules.get(id(module))
            if mark is not None and mark[0]() is module:
                return mark[1]
            scope = parent_of(scope)
        return False


marks = Marks()
"""The marks of this process."""
