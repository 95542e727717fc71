"""A dump in the layout of MindSpore, read: ranks, and for each its nodes, steps and values."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.dump.layout import MANIFEST, METADATA, ORDERS, SETTINGS, STATISTIC, graph_of_order_file
from opscope.errors import OpscopeError
from opscope.events import DATA_GRAPH, EVAL_GRAPH, IO, SETUP_GRAPH, Node, Phase, Stack
from opscope.names import PARAMETER, is_backward, is_optimizer, parent_of, type_in
from opscope.read.checked import DamagedError, Fields
from opscope.read.csv_lines import count_in
from opscope.read.dump_files import ListedValue, list_directory
from opscope.read.dump_names import FullNames, read_order
from opscope.read.dump_statistic import Statistic, StatisticRow, kind_of, read_statistic
from opscope.read.row_store import Records
from opscope.read.stored import Stored
from opscope.regular import entries, is_directory
from opscope.rundir.jsonlines import read_object
from opscope.rundir.layout import rank_directories
from opscope.stats.record import INPUT, INT, OUTPUT, ROW_DTYPE, UINT, VALID, joined
from opscope.stats.row import Row
from opscope.value_type import ValueType

_SIDES = {IO.INPUT.value: INPUT, IO.OUTPUT.value: OUTPUT}
_NO_STACK = Stack(0, ())
_EVERYTHING = frozenset(Row._fields)
HAS_INF = "has_inf"
"""Beside the numbers of a row: that it is known whether there are infinities."""


class DumpValues(NamedTuple):
    """Values of a dump. The numbers of a record are there where it is valid."""

    records: Records
    stored: list[Stored | None]
    """The place of each value's elements, if they were saved."""
    dtypes: list[str]
    """The original data type of each; its file may have another."""
    known: frozenset[str]
    """The numbers that every valid record has: fields of a row, and `HAS_INF`."""


def open_dump(path: Path) -> Dump:
    """The dump in a directory; that of a rank is a dump of this rank."""
    if is_directory(path / METADATA):
        found = {
            number: rank
            for number, rank in rank_directories(path.resolve().parent).items()
            if rank == path.resolve()
        }
        return Dump(path, found or {0: path})
    ranks = {n: p for n, p in rank_directories(path).items() if is_directory(p / METADATA)}
    if not ranks:
        raise OpscopeError(f"{path} is no dump: there is no rank_N/{METADATA} in it")
    return Dump(path, ranks)


class Dump:
    """One dump; what is read stays as it was when it was first asked for."""

    def __init__(self, path: Path, ranks: dict[int, Path]) -> None:
        self.path = path
        self.ranks = {number: DumpRank(number, rank) for number, rank in ranks.items()}


class DumpRank:
    """The files that one process dumped."""

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        self.path = path
        self.problems: dict[str, int] = {}
        """Sentences on what is missing or cannot be read, with how often."""
        self.types: dict[int, ValueType | None] = {0: None}
        self._type_ids: dict[ValueType, int] = {}
        self._ids: dict[tuple[int, str], int] = {}
        self._all: dict[int, Node] = {}
        self._parts: dict[tuple[int, int], DumpValues] = {}
        self._lock = threading.RLock()
        self._note_manifest()

    # ------------------------------------------------------------------ what there is

    @cached_property
    def manifest(self) -> dict[str, Any] | None:
        """The manifest: what the dump says of itself."""
        return read_object(self.path / MANIFEST)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings it was made with, as far as they can be read."""
        content = read_object(self.path / SETTINGS) or {}
        common = content.get("common_dump_settings")
        return common if isinstance(common, dict) else {}

    @property
    def first_step(self) -> int:
        """The number of the training's first step, dumped or not."""
        first = self.config.get("initial_iteration", 0)
        return first if isinstance(first, int) else 0

    @cached_property
    def directories(self) -> dict[tuple[int, int], Path]:
        """Graph and step → where their values are."""
        found: dict[tuple[int, int], Path] = {}
        for net in _nets(self.path, self.config.get("net_name")):
            for graph in _numbered(net):
                for step in _numbered(graph):
                    found[int(graph.name), int(step.name)] = step
        return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))

    @cached_property
    def steps(self) -> list[int]:
        """The steps there is data of."""
        return sorted({step for _, step in self.directories})

    @cached_property
    def orders(self) -> dict[int, list[str]]:
        """Graph → its operators in the order they ran."""
        folder = self.path / ORDERS
        files = entries(folder) if is_directory(folder) else []
        graphs = {graph_of_order_file(file.name): file for file in files}
        found = {graph: read_order(f) for graph, f in graphs.items() if graph is not None}
        for graph in {graph for graph, _ in self.directories} - found.keys():
            self._note(
                f"{ORDERS} has nothing of graph {graph}: names of operators are those of files"
            )
        return found

    @cached_property
    def nodes(self) -> dict[int, Node]:
        """Operators by id, in the order they ran, and parameters (of type `Parameter`)."""
        for graph, step in self.directories:
            self._part(graph, step)
        return self._all

    @property
    def nodes_so_far(self) -> dict[int, Node]:
        """Those of the steps that were looked at; `nodes` looks at all."""
        return self._all

    @cached_property
    def _orders_are_known(self) -> bool:
        """Gives the operators their ids in the order they ran."""
        for graph, names in self.orders.items():
            for name in names:
                self._node(graph, type_in(name), name)
        return True

    def values(
        self, steps: Collection[int] | None = None, graphs: Collection[int] | None = None
    ) -> DumpValues:
        """The values of some steps and graphs, in the order they were made."""
        chosen = [
            self._part(graph, step)
            for graph, step in self.directories
            if (steps is None or step in steps) and (graphs is None or graph in graphs)
        ]
        records = [part.records for part in chosen]
        return DumpValues(
            joined(records),
            [stored for part in chosen for stored in part.stored],
            [dtype for part in chosen for dtype in part.dtypes],
            _EVERYTHING.union([HAS_INF]).intersection(
                *(part.known for part in chosen if (part.records["valid"] == VALID).any())
            ),
        )

    # ------------------------------------------------------------------ one directory

    def _part(self, graph: int, step: int) -> DumpValues:
        with self._lock:
            if self._orders_are_known and (graph, step) not in self._parts:
                self._parts[graph, step] = self._read_part(graph, step)
            return self._parts[graph, step]

    def _read_part(self, graph: int, step: int) -> DumpValues:
        directory = self.directories[graph, step]
        listing = list_directory(directory)
        statistic = read_statistic(directory / STATISTIC) or Statistic([], frozenset())
        self._note("files of a kind that is not read here", len(listing.strange))
        trouble = f": it {statistic.trouble}" if statistic.trouble else ""
        self._note(f"lines of {STATISTIC} that cannot be read{trouble}", statistic.damaged)
        parameters = [row.name for row in statistic.rows if row.op_type == PARAMETER]
        names = FullNames(self.orders.get(graph, ()), parameters)
        found: dict[tuple[str, int, str, int], tuple[ListedValue | None, StatisticRow | None]] = {}
        op_types: dict[tuple[str, int, str, int], str] = {}
        for row in statistic.rows:
            key = row.name, row.task, row.io, row.slot
            found[key], op_types[key] = (None, row), row.op_type
        for value in listing.values:
            name = names.find(value.op_type, value.op_name) or value.op_name
            key = name, value.task, value.io, value.slot
            found[key] = value, found.get(key, (None, None))[1]
            op_types.setdefault(key, value.op_type)
        keys = sorted(found, key=lambda key: (key[1], key[2], key[3], key[0]))
        records = np.zeros(len(keys), ROW_DTYPE)
        stored: list[Stored | None] = []
        dtypes: list[str] = []
        for record, key in zip(records, keys, strict=True):
            listed, numbers = found[key]
            record["step"], record["call"], record["slot"] = step, key[1], key[3]
            record["io"] = _SIDES.get(key[2], OUTPUT)
            record["node"] = self._node(graph, op_types[key], key[0])
            stored.append(listed.stored if listed else None)
            dtypes.append(listed.dtype if listed else numbers.dtype if numbers else "")
            if numbers is not None:
                record["shape"] = self._type_id(ValueType(numbers.dtype, numbers.shape))
                _fill(record, numbers)
        return DumpValues(records, stored, dtypes, _known(statistic.columns))

    def _node(self, graph: int, op_type: str, name: str) -> int:
        number = self._ids.get((graph, name))
        if number is None:
            number = self._ids[graph, name] = len(self._ids)
            self._all[number] = _make_node(number, graph, op_type, name)
        return number

    def _type_id(self, kind: ValueType) -> int:
        number = self._type_ids.setdefault(kind, len(self._type_ids) + 1)
        self.types[number] = kind
        return number

    # ------------------------------------------------------------------ what is missing

    def _note(self, text: str, count: int = 1) -> None:
        if count:
            self.problems[text] = self.problems.get(text, 0) + count

    def _note_manifest(self) -> None:
        if self.manifest is None:
            self._note("there is no readable manifest.json, so it is not known what is missing")
            return
        for note in (self._note_end, self._note_skipped, self._note_steps):
            try:
                note(Fields(self.manifest, "manifest.json"))
            except DamagedError as error:
                self._note(str(error))

    def _note_end(self, manifest: Fields) -> None:
        if not manifest.data.get("ended"):
            self._note("the dump was not finished")
        if manifest.data.get("failure"):
            self._note(f"the dump ended early: {manifest.text('failure')}")
        if manifest.data.get("dropped_values"):
            dropped = manifest.integer("dropped_values")
            self._note("values that were lost when the dump ended", dropped)
        if manifest.data.get("sample_num"):
            number = manifest.integer("sample_num")
            self._note(
                f"tensors were saved as samples of {number} elements; only those are checked"
            )

    def _note_skipped(self, manifest: Fields) -> None:
        for skipped in manifest.objects("skipped") if "skipped" in manifest else ():
            reason = f"{skipped.text('reason', 'values')} that could not be saved"
            self._note(reason, skipped.integer("count") if "count" in skipped else 1)

    def _note_steps(self, manifest: Fields) -> None:
        for entry in manifest.objects("iterations") if "iterations" in manifest else ():
            if not entry.flag("complete", True):
                self._note(f"step {entry.integer('iteration')} is not complete")


def _nets(rank: Path, name: object) -> list[Path]:
    """The directories of networks: the one the config names, else all that look like one."""
    others = [path for path in entries(rank) if is_directory(path)]
    named = [path for path in others if path.name == name]
    if named:
        return named
    return [p for p in others if not p.name.startswith(".") and p.name != ORDERS and _numbered(p)]


def _numbered(directory: Path) -> list[Path]:
    found = (path for path in entries(directory) if count_in(path.name, 1 << 31) is not None)
    return [path for path in found if is_directory(path)]


def _make_node(number: int, graph: int, op_type: str, name: str) -> Node:
    scope = "" if op_type == PARAMETER else parent_of(name)
    return Node(number, graph, name, op_type, op_type, scope, "", _phase(graph, scope), _NO_STACK)


def _phase(graph: int, scope: str) -> Phase:
    """Return what the name of an operator tells of its phase."""
    beside = {EVAL_GRAPH: Phase.EVAL, SETUP_GRAPH: Phase.SETUP, DATA_GRAPH: Phase.DATA}
    if graph in beside:
        return beside[graph]
    if is_backward(scope):
        return Phase.BACKWARD
    return Phase.OPTIMIZER if is_optimizer(scope) else Phase.FORWARD


def _known(columns: frozenset[str]) -> frozenset[str]:
    known = set(columns) | {"count"}
    if {"zero", "negative", "positive"} <= columns:
        known.add("nan")
    if {"posinf", "neginf"} <= columns or {"min", "max"} <= columns:
        known.add(HAS_INF)
    return frozenset(known)


def _fill(record: Any, row: StatisticRow) -> None:
    """Fill in the numbers of a row; work out what it lacks from the rest where possible."""
    numbers = dict.fromkeys(("min", "max", "mean", "mean_abs", "l2", "std"), math.nan)
    numbers |= row.numbers
    count = numbers["count"] = math.prod(row.shape)
    if "nan" not in row.numbers:
        if {"zero", "negative", "positive"} <= row.numbers.keys():
            signed = sum(row.numbers[n] for n in ("zero", "negative", "positive"))
            numbers["nan"] = max(0, count - signed)
        elif "max" in row.numbers and math.isnan(row.numbers["max"]):
            numbers["nan"] = count
    if "posinf" not in row.numbers:
        numbers["posinf"] = numbers["max"] == math.inf
    if "neginf" not in row.numbers:
        numbers["neginf"] = numbers["min"] == -math.inf
    kind = record["kind"] = kind_of(numbers["min"], numbers["max"])
    suffix = {INT: "_int", UINT: "_uint"}.get(kind, "")
    for name, value in numbers.items():
        record[name + suffix if name in ("min", "max") else name] = value
    record["valid"] = VALID
