"""Values that cannot be read, since memory for it has run out, have no rows instead of zeros."""

from __future__ import annotations

import ctypes

import torch
from torch import nn

from helpers.engines import needs_observer
from opscope.capture.torch_capture import TorchCapture
from opscope.events import BaseSink, Node, Want
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.stats.engine import Engine
from opscope.stats.native_cpu import load

FAILED = 1
POINTER = ctypes.c_void_p
ROW = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(POINTER, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), POINTER, ctypes.c_int),
    *(POINTER, POINTER, POINTER),
)


class Short(Engine):
    """Has no memory for what has six elements in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        library = load()
        assert library is not None

        @ROW
        def row(data, dtype, ndim, sizes, *rest):  # type: ignore[no-untyped-def]
            if ndim == 1 and sizes[0] == 6:
                return FAILED
            return library.opscope_row(data, dtype, ndim, sizes, *rest)

        self.row = row

    @property
    def row_function(self) -> int:
        return ctypes.cast(self.row, POINTER).value or 0


class Seen(BaseSink):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts: set[int] = set()

    def wants(self, node: Node) -> Want:
        return Want.OUTSIDE_STATS | Want.OUTPUT_STATS

    def stats(self, rows: Rows) -> None:
        again = rows.records[rows.records["step"] > 0]  # new operators are seen to by Python
        self.names += [rows.nodes[number].op_type for number in again["node"].tolist()]
        self.counts |= set(again["count"].tolist())


@needs_observer
def test_they_are_left_out() -> None:
    sink, weight = Seen(), nn.Parameter(torch.ones(3))
    capture = TorchCapture(Pipeline([sink], Short()), lambda: 0)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    capture.start()
    try:
        for _ in range(3):
            optimizer.zero_grad()
            wide = torch.cat([weight.exp(), weight.sin()])  # of six elements
            wide.tanh().sum().backward()
            optimizer.step()
    finally:
        capture.stop()
    assert {"exp", "sin", "sum"} <= set(sink.names)
    assert not {"cat", "tanh"} & set(sink.names)
    assert sink.counts == {1, 3}
