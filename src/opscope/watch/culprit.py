"""Finds the element to blame: the first that is bad, its row of the batch, a parameter that is
0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opscope.events import Outside
from opscope.judge.origin.birth import Birth
from opscope.judge.selection import base_type

_SHOWN = 3
_PRODUCTS = frozenset(
    ("addmm", "mm", "bmm", "baddbmm", "addmv", "mv", "linear", "convolution", "_addmm_activation")
)
"""Operators whose elements come of whole rows of their inputs, not of the one at their place."""


def culprit(birth: Birth, values: Mapping[str, Any], entered: Mapping[int, Sequence[int]]) -> str:
    """Say which element of an operator's values is bad, and which parameter is zero.

    `entered` has by input slot the place of the first bad element that came in.
    """
    if birth.entered is not None:
        return _of_input(birth, entered.get(birth.slot, ()))
    parts = list(_of_output(birth, values))
    parts += [f"the parameter {name} is exactly 0" for name in _zero_parameters(birth, values)]
    return "; ".join(parts)


def first_bad(tensor: Any) -> list[int]:
    """Return the place of the first element that is NaN or infinite; none if there is none."""
    import torch

    places = torch.nonzero(~torch.isfinite(tensor.detach()))
    return [int(each) for each in places[0].tolist()] if len(places) else []


def _of_input(birth: Birth, index: Sequence[int]) -> str:
    if not index:
        return ""
    is_batch = birth.entered is not None and birth.entered.kind == "batch"
    row = f", in row {index[0]} of the batch" if is_batch and len(index) > 1 else ""
    return f"input {birth.slot} is bad first at {list(index)}{row}"


def _of_output(birth: Birth, values: Mapping[str, Any]) -> Iterator[str]:
    tensor = values.get(f"output.{birth.slot}")
    index = first_bad(tensor) if tensor is not None and tensor.dim() else []
    if not index:
        return
    there = [] if base_type(birth.node) in _PRODUCTS else list(_there(birth, values, tensor, index))
    where = f", where {' and '.join(there[:_SHOWN])}" if there else ""
    yield f"output {birth.slot} is bad first at {index}{where}"


def _there(
    birth: Birth, values: Mapping[str, Any], tensor: Any, index: Sequence[int]
) -> Iterator[str]:
    """Say what inputs are where an output is bad, of an operator on single elements."""
    inputs = {int(key[6:]): v for key, v in values.items() if key.startswith("input.") and v.dim()}
    whole = _are_spread([v.shape for v in inputs.values()], tensor.shape)
    for slot, value in inputs.items():
        if whole or _is_spread(value.shape, tensor.shape):
            yield f"{_named(birth, slot)} is {_element(value, index)}"


def _named(birth: Birth, slot: int) -> str:
    source = birth.node.sources[slot] if slot < len(birth.node.sources) else None
    if isinstance(source, Outside) and source.kind == "parameter":
        return f"the parameter {source.name}"
    return f"input {slot}"


def _are_spread(shapes: Sequence[Sequence[int]], over: Sequence[int]) -> bool:
    """Tell whether values of these shapes are broadcast to another one, all together."""
    import torch

    try:
        return bool(torch.broadcast_shapes(*shapes) == tuple(over))
    except RuntimeError:
        return False


def _is_spread(shape: Sequence[int], over: Sequence[int]) -> bool:
    """Tell whether a value of this shape has an element for each of another one."""
    pairs = zip(shape, over, strict=False)
    return len(shape) == len(over) and all(a in (1, b) for a, b in pairs)


def _element(tensor: Any, index: Sequence[int]) -> str:
    """The element for a place in what a value is spread over, which may be complex."""
    own = index[len(index) - tensor.dim() :]
    place = tuple(min(i, size - 1) for i, size in zip(own, tensor.shape, strict=True))
    found = tensor[place].item()
    return f"{found:.6g}" if not isinstance(found, bool) else str(found)


def _zero_parameters(birth: Birth, values: Mapping[str, Any]) -> Iterator[str]:
    for slot, source in enumerate(birth.node.sources):
        value = values.get(f"input.{slot}")
        is_parameter = isinstance(source, Outside) and source.kind == "parameter"
        if is_parameter and value is not None and value.numel() and not value.any():
            assert isinstance(source, Outside)
            yield source.name
