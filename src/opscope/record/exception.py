"""An exception with its frames, and the tensors in them summarised."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from opscope.capture.stacks import is_user_file

_MOST_TENSORS, _LARGEST = 24, 1 << 22
_LONGEST = 2000
_LONGEST_PART = 50_000


def describe(error: BaseException, thread: str = "") -> dict[str, Any]:
    """The exception as plain data; nothing of it raises, and no device is waited for."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the script's own exception may fail to tell
        message = ""
    return {
        "type": type(error).__name__,
        "message": message[:_LONGEST],
        "thread": thread,
        "traceback": _text(error),
        "frames": [_frame(frame, line) for frame, line in _frames(error.__traceback__)],
    }


def _text(error: BaseException) -> str:
    try:
        return _shortened("".join(traceback.format_exception(error)))
    except Exception:  # noqa: BLE001 - as above
        return type(error).__name__


def _shortened(text: str) -> str:
    """A text without its middle if it is very long."""
    left_out = len(text) - 2 * _LONGEST_PART
    if left_out <= 0:
        return text
    middle = f"\n[{left_out} characters left out]\n"
    return text[:_LONGEST_PART] + middle + text[-_LONGEST_PART:]


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _frame(frame: FrameType, line: int) -> dict[str, Any]:
    code = frame.f_code
    return {
        "file": code.co_filename,
        "line": line,
        "function": code.co_name,
        "user": is_user_file(code.co_filename),
        "code": linecache.getline(code.co_filename, line).strip(),
        "tensors": _tensors(frame.f_locals),
    }


def _tensors(values: dict[str, Any]) -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    found = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    return {name: summary(found[name]) for name in list(found)[:_MOST_TENSORS]}


def summary(tensor: Any) -> dict[str, Any]:
    """Describe a tensor; if it lies in this machine's memory, with its numbers."""
    import torch

    from opscope.capture.guards import plain_torch

    about: dict[str, Any] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "device": str(tensor.device),
    }
    plain = tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not plain or not 0 < tensor.numel() <= _LARGEST or type(tensor) not in _plain_types(torch):
        return about
    try:
        with plain_torch():
            values = tensor.detach().to(torch.float64)
            finite = values[torch.isfinite(values)]
            about["nan"] = int(torch.isnan(values).sum())
            about["inf"] = int(torch.isinf(values).sum())
            if finite.numel():
                about["min"], about["max"] = float(finite.min()), float(finite.max())
                about["mean"] = float(finite.mean())
    except Exception:  # noqa: BLE001 - such as a dtype without numbers, or no memory left
        about.pop("nan", None)
    return about


def _plain_types(torch: Any) -> tuple[type, ...]:
    return (torch.Tensor, torch.nn.Parameter)
