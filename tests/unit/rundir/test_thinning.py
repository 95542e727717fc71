"""Older steps are thinned: what is kept is exact, and what is left out is inside the extremes."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from opscope.read.row_store import RowStore
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.stat_files import StatFile, in_force, stat_files
from opscope.rundir.thinning import BETWEEN_DTYPE, EveryOther, steps_in, thin
from opscope.stats.record import FLOAT, INT, ROW_DTYPE, UINT, VALID

NAMES = {FLOAT: ("min", "max"), INT: ("min_int", "max_int"), UINT: ("min_uint", "max_uint")}
NOTHING = np.empty(0, BETWEEN_DTYPE)
Key = tuple[int, int, int, int]

floats = st.floats(allow_nan=True, allow_infinity=True, width=32)
ends = st.one_of(
    st.tuples(st.just(FLOAT), floats, floats),
    st.tuples(st.just(INT), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(UINT), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
)
row = st.tuples(
    st.integers(0, 1), st.integers(0, 2), st.integers(0, 1), ends, st.integers(0, 9), st.booleans()
)
steps = st.lists(st.tuples(st.integers(1, 3), st.lists(row, max_size=6)), max_size=14)


def made(described: Any) -> Any:
    """Records of steps: each a distance from the step before, and its rows."""
    count = sum(len(rows) for _, rows in described)
    records = np.zeros(count, ROW_DTYPE)
    step, place = -1, 0
    for distance, rows in described:
        step += distance
        for io, node, slot, (kind, low, high), bad, valid in rows:
            record = records[place]
            record["valid"], record["step"], record["call"] = valid, step, place
            record["io"], record["node"], record["slot"], record["kind"] = io, node, slot, kind
            record[NAMES[kind][0]], record[NAMES[kind][1]] = low, high
            record["nan"], record["posinf"], record["neginf"] = bad, bad // 2, bad // 3
            place += 1
    return records


def key_of(record: Any) -> Key:
    """Whose numbers they are."""
    return tuple(int(record[name]) for name in ("node", "io", "slot", "kind"))  # type: ignore[return-value]


def least(values: list[Any]) -> Any:
    """The least and the largest of pairs, without NaN."""
    known = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    return min(known) + 0 if known else math.nan  # of zeros with either sign, any will do


def expected_between(records: Any, kept: list[int]) -> dict[tuple[Key, int], list[Any]]:
    """By value and gap: rows, first and last step, extremes and counts, in plain Python."""
    groups: dict[tuple[Key, int], list[Any]] = defaultdict(list)
    for record in records:
        step = int(record["step"])
        if record["valid"] == VALID and step not in kept:
            gap = sum(k <= step for k in kept)
            groups[key_of(record), gap].append(record)
    found = {}
    for (key, gap), of_gap in groups.items():
        low, high = NAMES[key[3]]
        found[key, gap] = [
            len(of_gap),
            min(int(r["step"]) for r in of_gap),
            max(int(r["step"]) for r in of_gap),
            least([r[low].item() for r in of_gap]),
            -least([-r[high].item() for r in of_gap]) + 0,
            *(sum(int(r[name]) for r in of_gap) for name in ("nan", "posinf", "neginf")),
        ]
    return found


def found_between(between: Any, kept: list[int]) -> dict[tuple[Key, int], list[Any]]:
    """The same from the records."""
    found = {}
    for record in between:
        key = key_of(record)
        gap = sum(k <= int(record["first"]) for k in kept)
        assert (key, gap) not in found
        found[key, gap] = [
            *(int(record[name]) for name in ("rows", "first", "last")),
            *(record[name].item() + 0 for name in NAMES[key[3]]),
            *(int(record[name]) for name in ("nan", "posinf", "neginf")),
        ]
    return found


@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_one_level_is_what_plain_python_says(described: Any) -> None:
    records = made(described)
    kept = EveryOther().choose(steps_in(records))
    assert kept.tolist() == steps_in(records).tolist()[::2]
    thinned = thin(records, NOTHING, kept)
    is_kept = (records["valid"] == VALID) & np.isin(records["step"], kept)
    whole = records.view("V128")[is_kept]
    assert thinned.records.tobytes() == whole.tobytes()
    wanted = expected_between(records, kept.tolist())
    assert repr(found_between(thinned.between, kept.tolist())) == repr(
        {k: wanted[k] for k in found_between(thinned.between, kept.tolist())}
    )
    assert len(wanted) == len(thinned.between)
    assert (np.diff(thinned.between["node"].astype(int)) >= 0).all()


@given(steps)
@settings(max_examples=examples(100), deadline=None)
def test_two_levels_are_as_if_thinned_at_once(described: Any) -> None:
    records = made(described)
    once = EveryOther().choose(steps_in(records))
    first = thin(records, NOTHING, once)
    twice = EveryOther().choose(steps_in(first.records))
    second = thin(first.records, first.between, twice)
    at_once = thin(records, NOTHING, twice)
    assert second.records.tobytes() == at_once.records.tobytes()
    assert repr(found_between(second.between, twice.tolist())) == repr(
        found_between(at_once.between, twice.tolist())
    )


@given(st.lists(st.integers(0, 40), unique=True).map(sorted), st.data())
def test_parts_of_the_steps_make_no_difference(numbers: list[int], data: Any) -> None:
    """A step that lies in two parts is kept in both or in none."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=3)))
    every = EveryOther()
    kept = set()
    for begin, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
        kept |= set(every.choose(np.array(numbers[max(0, begin - 1) : end], np.int64)).tolist())
    assert sorted(kept) == numbers[::2]


def long_run(directory: Path, count: int, per_step: int, budget: int) -> SegmentWriter:
    """A run whose node n has -step and step as its ends in each step."""
    writer = SegmentWriter(directory, budget)
    record = np.zeros(per_step, ROW_DTYPE)
    record["valid"], record["io"] = VALID, 1
    record["node"] = record["call"] = np.arange(per_step)
    for step in range(count):
        record["step"], record["min"], record["max"], record["nan"] = step, -step, step, step % 2
        writer.append(record)
        assert step % 25 or written(directory) <= budget
    return writer


def written(directory: Path) -> int:
    """The bytes of all files."""
    return sum(path.stat().st_size for path in directory.iterdir())


def test_a_long_run_shows_its_whole_life_within_its_budget(tmp_path: Path, capsys: Any) -> None:
    count, budget = 5_000, 512 << 10
    writer = long_run(tmp_path, count, 20, budget)
    writer.close()
    store = RowStore(tmp_path)
    assert len({file.level for file in stat_files(tmp_path)}) > 4
    series, between = store.stats(nodes={7}), store.between({7})
    shown = series["step"].astype(int).tolist()
    assert shown == sorted(set(shown))
    assert shown[0] == 0 and shown[-1] == count - 1
    assert shown[-100:] == list(range(count - 100, count))
    assert max(np.diff(shown)) <= count // 8
    assert (series["max"] == series["step"]).all()
    assert len(series) + int(between["rows"].sum()) == count
    covered = [(int(b["first"]), int(b["last"])) for b in between]
    for begin, end in covered:
        assert not any(begin <= step <= end for step in shown)
    assert (between["max"] == between["last"]).all()
    assert (between["min"] == -between["last"].astype(float)).all()
    assert int(between["nan"].sum() + series["nan"].sum()) == count // 2
    assert writer.dropped == 0
    assert writer.thinned == writer.rows - len(store.stats())
    assert capsys.readouterr().err.count("thinned") == 1


def test_steps_larger_than_the_budget_are_dropped_and_it_is_said(
    tmp_path: Path, capsys: Any
) -> None:
    writer = long_run(tmp_path, 10, 400, 64 << 10)
    writer.close()
    assert written(tmp_path) <= 64 << 10
    assert writer.dropped > 0
    assert RowStore(tmp_path).stats()["step"][-1] == 9
    assert capsys.readouterr().err.count("dropped") == 1


def test_a_file_that_replaces_others_counts_and_they_do_not(tmp_path: Path) -> None:
    files = [StatFile(n, n, 0, tmp_path) for n in range(6)]
    thinned = [StatFile(0, 1, 1, tmp_path), StatFile(2, 3, 1, tmp_path)]
    deep = StatFile(0, 3, 2, tmp_path)
    assert in_force(files) == files
    assert in_force([*files, thinned[0]]) == [thinned[0], *files[2:]]
    assert in_force([*files, *thinned, deep]) == [deep, *files[4:]]
    assert in_force([files[5], thinned[1], deep, files[4]]) == [deep, *files[4:]]


def test_a_directory_left_between_two_deletions_has_every_row_once(tmp_path: Path) -> None:
    """As a kill in the middle of thinning leaves it: the new file is there and the old ones too."""
    before = tmp_path / "before"
    before.mkdir()
    long_run(before, 3000, 20, 1 << 20)
    kept = {path.name: path.read_bytes() for path in before.iterdir()}
    thinned = [file for file in stat_files(before) if file.level]
    for file in thinned:
        for number in range(file.first, file.last + 1):
            leftover = np.zeros(50, ROW_DTYPE)
            leftover["valid"], leftover["step"] = VALID, 1
            (before / f"{number:06d}.rows").write_bytes(leftover.tobytes())
    shown = RowStore(before).stats(nodes={3})["step"].tolist()
    assert len(thinned) > 1 and len(kept) < len(list(before.iterdir()))
    assert shown == sorted(set(shown))
    assert len(shown) + RowStore(before).between({3})["rows"].sum() == 3000


def test_files_that_somebody_cut_or_deleted_end_neither_training_nor_recording(
    tmp_path: Path,
) -> None:
    writer = SegmentWriter(tmp_path, 1 << 18)
    record = np.zeros(20, ROW_DTYPE)
    record["valid"] = VALID
    for step in range(2000):
        record["step"] = step
        writer.append(record)
        if step == 60:
            (first, second) = stat_files(tmp_path)[:2]
            first.rows.write_bytes(b"x" * 100)
            second.rows.unlink()
    writer.close()
    assert writer.dropped > 0
    assert RowStore(tmp_path).stats()["step"][-1] == 1999
