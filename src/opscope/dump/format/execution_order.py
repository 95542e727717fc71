"""`execution_order/`: the order of a graph's operators, and the iterations that were captured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscope.atomic_files import TempFiles, append, make_directory
from opscope.dump import layout
from opscope.dump.format import csvtext

HEADER = "NodeExecutionOrder-FullNameWithScope"


class OperatorOrder:
    """The operators of one graph in their order; those that come later are put in their place."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: set[str] = set()

    def add(self, names: Sequence[str]) -> bool:
        """Take in the order of one step; returns whether anything was new."""
        new = self._new_after(names)
        if new:
            self.names = self._merged(new)
        return bool(new)

    def _new_after(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The names not seen before, by the known name they come after ("" for the start)."""
        new: dict[str, list[str]] = {}
        anchor = ""
        arriving: set[str] = set()
        for name in names:
            if name in self._known:
                anchor = name
            elif name not in arriving:
                arriving.add(name)
                new.setdefault(anchor, []).append(name)
        self._known |= arriving
        return new

    def _merged(self, new: dict[str, list[str]]) -> list[str]:
        merged = new.get("", [])
        for name in self.names:
            merged.append(name)
            merged.extend(new.get(name, ()))
        return merged


class ExecutionOrder:
    """Keeps both files of every graph."""

    def __init__(self, root: Path, temp: TempFiles) -> None:
        self._root = root
        self._temp = temp
        self._orders: dict[int, OperatorOrder] = {}

    def add(self, graph: int, names: Sequence[str]) -> None:
        """Take in the order of a step that differs from the step before."""
        order = self._orders.setdefault(graph, OperatorOrder())
        if order.add(names):
            make_directory(self._root / layout.ORDERS)
            self._write(graph, order.names)

    def captured(self, graph: int, iteration: int) -> None:
        """Note that an iteration of this graph was captured."""
        append(layout.captured_file(self._root, graph), f"{iteration}\n".encode())

    def _write(self, graph: int, names: Sequence[str]) -> None:
        lines = [HEADER, *map(csvtext.field, names)]
        self._temp.place_bytes(layout.order_file(self._root, graph), csvtext.encode(lines, "\n"))
