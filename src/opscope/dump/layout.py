"""The places of a dump's files; the names are part of its format.

```
{path}/.rank_N.lock                      held while rank N writes
{path}/.previous/{time}/                 what earlier runs left
{path}/rank_N/.dump_metadata/            manifest, settings, versions
{path}/rank_N/execution_order/           the order of each graph's operators
{path}/rank_N/graphs/                    each graph, as text and as a model
{path}/rank_N/{net_name}/{graph}/{iteration or "constants"}/    values and tables
```

It imports nothing of opscope, so that readers can use it too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

METADATA = ".dump_metadata"
MANIFEST = f"{METADATA}/manifest.json"
SETTINGS = f"{METADATA}/data_dump.json"
VERSIONS = f"{METADATA}/config.json"
ORDERS = "execution_order"
GRAPHS = "graphs"
PREVIOUS = ".previous"
TEMP = ".tmp"
"""Beside what is written: files that are not complete yet."""

STATISTIC = "statistic.csv"
MAPPING = "mapping.csv"
SAMPLES = "samples.csv"
OVERFLOW = "overflow.csv"
PACK = "values.safetensors"
NPY = ".npy"

CONSTANTS = -1
"""Stands for the directory of constants, where a number of an iteration stands."""

_ORDER = re.compile(r"ms_execution_order_graph_([0-9]{1,9})\.csv")
_RANK = re.compile(r"rank_(\d+)")
_LOCK = re.compile(r"\.rank_(\d+)\.lock")


class DumpFolder(NamedTuple):
    """A directory of the dump: `{graph}/{iteration}`, or `{graph}/constants`."""

    graph: int
    iteration: int

    @property
    def path(self) -> str:
        """The directory, from that of the network."""
        iteration = "constants" if self.iteration == CONSTANTS else str(self.iteration)
        return f"{self.graph}/{iteration}"


def rank_directory(path: Path, rank: int) -> Path:
    """The directory of one rank."""
    return path / f"rank_{rank}"


def rank_directories(path: Path) -> list[Path]:
    """The directories of all ranks there are."""
    return sorted(each for each in path.iterdir() if _RANK.fullmatch(each.name))


def lock_file(directory: Path) -> Path:
    """The file that is locked while the directory of a rank is written."""
    return directory.with_name(f".{directory.name}.lock")


def lock_files(path: Path) -> list[Path]:
    """The lock files of all ranks there are or were; none if the path cannot be listed."""
    try:
        return sorted(each for each in path.iterdir() if _LOCK.fullmatch(each.name))
    except OSError:
        return []


def order_file(root: Path, graph: int) -> Path:
    """The file with the order of a graph's operators."""
    return root / ORDERS / f"ms_execution_order_graph_{graph}.csv"


def graph_of_order_file(name: str) -> int | None:
    """The graph whose order is in a file of this name; None if it is no such name."""
    found = _ORDER.fullmatch(name)
    return int(found[1]) if found else None


def captured_file(root: Path, graph: int) -> Path:
    """The file with the iterations in which a graph was captured."""
    return root / ORDERS / f"ms_global_execution_order_graph_{graph}.csv"


def graph_files(root: Path, graph: int) -> tuple[Path, Path]:
    """The files of a graph: as text, and as a model."""
    stem = f"ms_output_trace_code_graph_{graph}"
    return root / GRAPHS / f"{stem}.ir", root / GRAPHS / f"{stem}.pb"
