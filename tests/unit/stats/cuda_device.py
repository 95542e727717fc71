"""Where the CUDA engine's tests run: on a GPU, or on the CPU in Triton's interpreter."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Tensor = Any
Array = np.ndarray[Any, Any]

ON_GPU: bool = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="needs Triton, and a GPU or Triton's interpreter")

from opscope.stats.cuda.engine import CudaRows  # noqa: E402
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, row_from  # noqa: E402
from opscope.stats.row import Row  # noqa: E402


def examples(count: int) -> int:
    """Fewer examples in the interpreter, which is slow."""
    return count if ON_GPU else max(5, count // 30)


def records(engine: Any, tensors: Sequence[Tensor], between: Callable[[], None] = bool) -> Array:  # type: ignore[assignment]
    """The records of tensors submitted together."""
    found = np.zeros(len(tensors), ROW_DTYPE)
    for place, tensor in enumerate(tensors):
        engine.submit(tensor, found.ctypes.data + ROW_BYTES * place)
    between()
    ticket = engine.flush()
    ticket.wait()
    assert ticket.ready()
    assert not found["valid"].any()
    ticket.deliver()
    return found


def rows(engine: Any, tensors: Sequence[Tensor]) -> list[Row]:
    """The rows of tensors submitted together."""
    found = records(engine, tensors)
    assert found["valid"].all()
    return [row_from(record) for record in found]


_engine = functools.cache(CudaRows)


def row(tensor: Tensor, precision: str = "high") -> Row:
    """The row of one tensor."""
    return rows(_engine(precision), [tensor])[0]


def _interpreter_with_new_numpy() -> None:
    """Triton 3.6's interpreter makes ints of arrays with one element, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


if not ON_GPU:
    _interpreter_with_new_numpy()
