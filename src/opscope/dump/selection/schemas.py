"""The schema that torch has of an operator, found by the name that a node has for it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from opscope.events import Node


@lru_cache(maxsize=4096)
def operator_of(op: str) -> Any:
    """Return what capture knows of an operator, such as "aten.add_.Tensor"; or None."""
    from opscope.capture.operators import Operator

    found = _overload(op)
    return None if found is None else Operator.of(found)


def arguments_of(node: Node) -> dict[str, str]:
    """Return the arguments of a node that are no tensors; those not given have their defaults."""
    from opscope.capture.operators import as_texts

    operator = operator_of(node.op)
    defaults = {} if operator is None else as_texts(operator.defaults)
    return defaults | node.arguments


@lru_cache(maxsize=4096)
def returned_tensors(op: str) -> tuple[str, ...]:
    """The names of the tensors that an operator returns, empty where torch gives none."""
    schema = getattr(_overload(op), "_schema", None)
    returns = () if schema is None else schema.returns
    return tuple(each.name for each in returns if "Tensor" in str(each.type))


def _overload(op: str) -> Any:
    import torch

    found: Any = torch.ops
    try:
        for part in op.split("."):
            found = getattr(found, part)
    except (AttributeError, RuntimeError):
        return None
    return found
