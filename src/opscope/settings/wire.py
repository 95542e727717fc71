"""Settings as plain JSON values and back, for handing them to another process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.settings.iterations import Iterations
from opscope.settings.kernels import KernelPattern

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WIRE_VERSION = 1

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "path": Path,
    "run_dir": Path,
    "iterations": Iterations.parse,
    "steps": Iterations.parse,
    "kernels": lambda texts: tuple(KernelPattern.parse(text) for text in texts),
    "support_device": tuple,
    "statistic_category": tuple,
    "notices": tuple,
    "extra_stats": tuple,
    "include": frozenset,
}


def encode(settings: DataclassInstance) -> dict[str, Any]:
    """The fields of a settings object as JSON values."""
    fields = dataclasses.fields(settings)
    return {field.name: _encode_value(getattr(settings, field.name)) for field in fields}


def decode(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a settings object from what `encode` made; the inverse of it."""
    return {name: _decode_value(name, value) for name, value in data.items()}


def _encode_value(value: Any) -> Any:
    if isinstance(value, Iterations | KernelPattern):
        return value.text
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | frozenset):
        items = sorted(value) if isinstance(value, frozenset) else value
        return [_encode_value(item) for item in items]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encode(value)
    return value


def _decode_value(name: str, value: Any) -> Any:
    decoder = _DECODERS.get(name)
    return value if decoder is None or value is None else decoder(value)
