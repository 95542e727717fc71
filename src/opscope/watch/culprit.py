"""Finds the element to blame: the first that is bad, its row of the batch, a parameter that is
0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opscope.events import Outside
from opscope.judge.origin.birth import Birth

_SHOWN = 3


def culprit(birth: Birth, values: Mapping[str, Any], entered: Mapping[int, Sequence[int]]) -> str:
    """Say which element of an operator's values is bad, and which parameter is zero.

    `entered` has by input slot the place of the first bad element that came in.
    """
    if birth.entered is not None:
        return _of_input(birth, entered.get(birth.slot, ()))
    parts = list(_of_output(values.get(f"output.{birth.slot}"), birth.slot, values))
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


def _of_output(tensor: Any, slot: int, values: Mapping[str, Any]) -> Iterator[str]:
    index = first_bad(tensor) if tensor is not None and tensor.dim() else []
    if not index:
        return
    inputs = {key.replace(".", " "): v for key, v in values.items() if key[:5] == "input"}
    same = {key: v for key, v in inputs.items() if _is_spread(v.shape, tensor.shape)}
    there = [f"{key} is {_element(v, index)}" for key, v in same.items()]
    where = f", where {' and '.join(there[:_SHOWN])}" if there else ""
    yield f"output {slot} is bad first at {index}{where}"


def _is_spread(shape: Sequence[int], over: Sequence[int]) -> bool:
    """Tell whether a value of this shape has an element for each of another one."""
    pairs = zip(shape, over, strict=False)
    return len(shape) == len(over) and all(a in (1, b) for a, b in pairs)


def _element(tensor: Any, index: Sequence[int]) -> str:
    """The element for a place in what a value is spread over, which may be complex."""
    place = tuple(min(i, size - 1) for i, size in zip(index, tensor.shape, strict=True))
    found = tensor[place].item()
    return f"{found:.6g}" if not isinstance(found, bool) else str(found)


def _zero_parameters(birth: Birth, values: Mapping[str, Any]) -> Iterator[str]:
    for slot, source in enumerate(birth.node.sources):
        value = values.get(f"input.{slot}")
        is_parameter = isinstance(source, Outside) and source.kind == "parameter"
        if is_parameter and value is not None and value.numel() and not value.any():
            assert isinstance(source, Outside)
            yield source.name
