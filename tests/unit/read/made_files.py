"""Dumps by hand: files as docs/dump.md has them."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NET = "Default/network-Net"
FC = f"{NET}/fc-Linear/addmm-op0"
RELU = f"{NET}/relu-op0"
GRADIENT = f"Gradients/{NET}/fc-Linear/mm-op0"
TITLES = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "l2norm": "L2Norm Value",
    "count": "Count",
    "nan count": "NaN Count",
    "zero count": "Zero Count",
    "negative zero count": "Negative Zero Count",
    "positive zero count": "Positive Zero Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
}


def safe(text: str) -> str:
    return text.replace("/", "_").replace(".", "_")


class MadeFiles:
    """Writes a dump of one rank."""

    def __init__(
        self,
        path: Path,
        rank: int = 0,
        order: Sequence[str] = (FC, RELU, GRADIENT),
        **settings: Any,
    ) -> None:
        self.path = path
        self.root = path / f"rank_{rank}"
        (self.root / ".dump_metadata").mkdir(parents=True)
        common = {"path": str(path), "net_name": "Net", "iteration": "all"} | settings
        self.write(".dump_metadata/data_dump.json", json.dumps({"common_dump_settings": common}))
        self.manifest()
        if order:
            lines = ["NodeExecutionOrder-FullNameWithScope", *order]
            self.write("execution_order/ms_execution_order_graph_0.csv", "\n".join(lines) + "\n")
        self.task = 0

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def manifest(self, **changes: Any) -> None:
        content = {"format": 1, "ended": "now", "complete": True, "failure": None}
        self.write(".dump_metadata/manifest.json", json.dumps(content | changes))

    def directory(self, step: int, graph: int = 0) -> Path:
        path = self.root / "Net" / str(graph) / str(step)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def name(self, op_type: str, name: str, dtype: str, io: str = "output", slot: int = 0) -> str:
        self.task += 1
        task = 0 if op_type == "Parameter" else self.task
        end = f"{task}.0.1700000000000000.{io}.{slot}.DefaultFormat.{dtype}.npy"
        return f"{op_type}.{safe(name)}.{end}"

    def save(
        self,
        step: int,
        name: str,
        array: Any,
        op_type: str = "",
        io: str = "output",
        slot: int = 0,
        dtype: str = "",
        graph: int = 0,
    ) -> Path:
        """A tensor in a file."""
        array = np.asarray(array)
        op_type = op_type or name.rpartition("/")[2].rpartition("-op")[0]
        file = self.name(op_type, name, dtype or array.dtype.name, io, slot)
        np.save(self.directory(step, graph) / file, array)
        return self.directory(step, graph) / file

    def parameter(self, step: int, name: str, array: Any, graph: int = 0) -> Path:
        return self.save(step, name, array, "Parameter", graph=graph)

    def statistic(
        self, step: int, rows: Sequence[tuple[str, Any]], columns: Sequence[str], graph: int = 0
    ) -> None:
        """A table of rows: names and arrays."""
        fixed = ["Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot"]
        header = [*fixed, "Data Size", "Data Type", "Shape", *(TITLES[c] for c in columns)]
        with open(self.directory(step, graph) / "statistic.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for task, (name, values) in enumerate(rows, 1):
                array = np.asarray(values)
                is_operator = "/" in name
                op_type = name.rpartition("/")[2].rpartition("-op")[0] or "Parameter"
                shape = f"[{','.join(map(str, array.shape))}]"
                writer.writerow(
                    [op_type, name, task if is_operator else 0, 0, 17, "output", 0]
                    + [array.nbytes, array.dtype.name, shape]
                    + [_number(column, array) for column in columns]
                )

    def pack(self, step: int, values: dict[str, Array], repeats: dict[str, str]) -> None:
        """A packed file: the names that the values' files would have, and their arrays."""
        header: dict[str, Any] = {
            "__metadata__": {"opscope_dump": "1", "repeats": json.dumps(repeats)}
        }
        data = b""
        for name, array in values.items():
            code, shape = f"F{8 * array.itemsize}", array.shape
            if array.dtype.kind == "c":
                code, shape = f"F{4 * array.itemsize}", (*shape, 2)
            raw = array.tobytes()
            offsets = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": code, "shape": shape, "data_offsets": offsets}
            data += raw
        text = json.dumps(header).encode()
        file = self.directory(step) / "values.safetensors"
        file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _number(column: str, array: Array) -> Any:
    wide = array.astype(np.float64)
    known = wide[~np.isnan(wide)]
    finite = wide[np.isfinite(wide)]
    whole = array.dtype.kind in "iu"
    return {
        "max": lambda: (int(array.max()) if whole else known.max()) if known.size else "nan",
        "min": lambda: (int(array.min()) if whole else known.min()) if known.size else "nan",
        "avg": lambda: finite.mean() if finite.size else "nan",
        "l2norm": lambda: np.sqrt((finite**2).sum()),
        "count": lambda: array.size,
        "nan count": lambda: int(np.isnan(wide).sum()),
        "zero count": lambda: int((wide == 0).sum()),
        "negative zero count": lambda: int((wide < 0).sum()),
        "positive zero count": lambda: int((wide > 0).sum()),
        "negative inf count": lambda: int(np.isneginf(wide).sum()),
        "positive inf count": lambda: int(np.isposinf(wide).sum()),
    }[column]()
