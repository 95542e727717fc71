"""Reading dumps: files, packs, tables, long names, and what is missing or damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_files import FC, GRADIENT, RELU, MadeFiles

from opscope.dump.format.names import NameBook
from opscope.errors import OpscopeError
from opscope.events import Phase
from opscope.read.dump import HAS_INF, open_dump
from opscope.read.find import is_dump
from opscope.read.stored import open_array
from opscope.stats.record import VALID


def test_files_become_values_with_full_names(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.save(3, FC, np.ones((2, 3), np.float32))
    made.save(3, RELU, np.zeros(4, np.float16), io="input", slot=1)
    made.save(5, GRADIENT, np.arange(3))
    made.parameter(3, "fc.weight", np.eye(2))
    rank = open_dump(tmp_path).ranks[0]
    assert rank.steps == [3, 5]
    values = rank.values()
    names = [rank.nodes[n].name for n in values.records["node"].tolist()]
    assert names == ["fc_weight", FC, RELU, GRADIENT]
    assert values.records["step"].tolist() == [3, 3, 3, 5]
    assert values.records["io"].tolist() == [1, 1, 0, 1]
    assert values.records["slot"].tolist() == [0, 0, 1, 0]
    assert values.dtypes == ["float64", "float32", "float16", "int64"]
    assert not values.records["valid"].any()
    phases = {node.name: node.phase for node in rank.nodes.values()}
    assert phases[FC] is Phase.FORWARD
    assert phases[GRADIENT] is Phase.BACKWARD
    assert [stored is not None for stored in values.stored] == [True] * 4
    assert rank.problems == {}
    assert len(rank.values(steps={5}).records) == 1


def test_arrays_of_any_order_and_size(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.array(3.5, np.float32),
        "empty": np.empty((0, 4)),
        "complex": np.array([1 + 2j]),
        "large": np.arange(200_000, dtype=np.float64),
    }
    for name, array in arrays.items():
        made.save(0, f"Default/{name}-op0", array)
    rank = open_dump(tmp_path).ranks[0]
    values = rank.values()
    for number, stored in zip(values.records["node"].tolist(), values.stored, strict=True):
        assert stored is not None
        name = rank.nodes[number].name.removeprefix("Default_").removesuffix("-op0")
        np.testing.assert_array_equal(open_array(stored), arrays[name])


def test_a_pack_holds_values_under_the_same_names(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    one, other = made.name("addmm", FC, "float32"), made.name("relu", RELU, "complex64")
    again = made.name("relu", RELU, "float32", io="input")
    a, b = np.ones((2, 2), np.float32), np.array([1 + 2j, 3], np.complex64)
    made.pack(0, {one: a, other: b}, {again: one})
    values = open_dump(tmp_path).ranks[0].values()
    arrays = [open_array(stored) for stored in values.stored if stored is not None]
    for found, expected in zip(arrays, (a, b, a), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_values_in_a_pack_may_lie_anywhere(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    names = [made.name("relu", RELU, "float64", slot=slot) for slot in range(2)]
    half = made.name("addmm", FC, "float16")
    arrays = {half: np.ones(3, np.float16), names[0]: np.arange(3.0), names[1]: np.arange(4.0)}
    made.pack(0, arrays, {})
    for stored in open_dump(tmp_path).ranks[0].values().stored:
        assert stored is not None
        assert open_array(stored).flags.aligned


def test_statistics_come_with_what_they_have(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    rows = [(FC, [1.0, -np.inf]), ("fc.weight", [[1, 2, 3]]), (RELU, [np.nan, np.nan])]
    made.statistic(0, rows, ["max", "min", "avg"])
    rank = open_dump(tmp_path).ranks[0]
    values = rank.values()
    assert values.known == {"max", "min", "mean", "count", HAS_INF}
    by_name = {rank.nodes[int(r["node"])].name: r for r in values.records}
    assert (values.records["valid"] == VALID).all()
    assert (by_name[FC]["count"], by_name[FC]["max"], by_name[FC]["neginf"]) == (2, 1.0, 1)
    weight = by_name["fc.weight"]
    assert (weight["min_int"], weight["max_int"], weight["mean"]) == (1, 3, 2.0)
    assert by_name[RELU]["nan"] == 2, "whose maximum is NaN has nothing else"
    assert rank.types[int(weight["shape"])] == ("int64", (1, 3))


def test_tables_give_full_names_to_parameters(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.parameter(0, "fc.weight", np.ones(2))
    made.statistic(0, [("fc.weight", np.ones(2))], ["max"])
    rank = open_dump(tmp_path).ranks[0]
    values = rank.values()
    assert [rank.nodes[n].name for n in values.records["node"].tolist()] == ["fc.weight"]
    assert values.stored[0] is not None


def test_long_and_equal_names(tmp_path: Path) -> None:
    twins = ["Default/a/b-op0", "Default/a_b-op0"]
    book = NameBook()
    files = [book.op_name(0, "b" if "a/b" in name else "a_b", name) for name in twins]
    made = MadeFiles(tmp_path, order=twins)
    end = "0.1.2.output.0.DefaultFormat.float32.npy"
    directory = made.directory(0)
    np.save(directory / f"a_b.{files[1]}.{end}", np.ones(1))
    np.save(directory / "0123456789.npy", np.zeros(1))
    long = f"b.{'x' * 300}.{end}"
    (directory / "mapping.csv").write_text(f"0123456789.npy,{long}\n")
    rank = open_dump(tmp_path).ranks[0]
    names = {rank.nodes[n].name for n in rank.values().records["node"].tolist()}
    assert names == {"Default/a_b-op0", "x" * 300}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ended": None}, "the dump was not finished"),
        ({"failure": "disk full"}, "the dump ended early: disk full"),
        ({"dropped_values": 3}, "values that were lost when the dump ended"),
        ({"iterations": [{"iteration": 4, "complete": False}]}, "step 4 is not complete"),
        ({"sample_num": 10}, "samples of 10 elements"),
        ({"skipped": [{"reason": "sparse tensors", "count": 2}]}, "sparse tensors that could not"),
    ],
)
def test_what_the_manifest_says_is_missing(
    tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    made = MadeFiles(tmp_path)
    made.manifest(**changes)
    assert any(expected in text for text in open_dump(tmp_path).ranks[0].problems)


def test_what_is_not_there_or_damaged_is_said(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path, order=())
    made.save(0, FC, np.ones(2))
    (made.root / ".dump_metadata/manifest.json").write_text("{")
    (made.directory(0) / "strange.txt").write_text("")
    (made.directory(0) / "half.npy").write_text("")
    made.write("Net/0/1/statistic.csv", "Op Type,Op Name\r\nx\r\n")
    rank = open_dump(tmp_path).ranks[0]
    assert len(rank.values().records) == 1
    texts = " ".join(rank.problems)
    assert "no readable manifest.json" in texts
    assert "execution_order has nothing of graph 0" in texts
    assert rank.problems["files of a kind that is not read here"] == 2
    assert "lines of statistic.csv that cannot be read" in texts


def test_a_torn_table_is_read_up_to_the_tear(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.statistic(0, [(FC, np.ones(2)), (RELU, np.ones(2))], ["max"])
    path = made.directory(0) / "statistic.csv"
    path.write_bytes(path.read_bytes()[:-30])
    rank = open_dump(tmp_path).ranks[0]
    assert len(rank.values().records) == 1
    assert rank.problems == {"lines of statistic.csv that cannot be read": 1}


@pytest.mark.parametrize("data", [b"", b"hello", b"\x93NUMPY\x01\x00\xff\xff{", b"\x93NUMPY"])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    made = MadeFiles(tmp_path)
    path = made.save(0, FC, np.ones(2))
    path.write_bytes(data)
    (stored,) = open_dump(tmp_path).ranks[0].values().stored
    assert stored is not None
    with pytest.raises(OpscopeError, match=r"addmm\..*is damaged"):
        open_array(stored)
    path.unlink()
    with pytest.raises(OpscopeError, match="No such file"):
        open_array(stored)


def test_python_objects_are_refused(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    path = made.save(0, FC, np.ones(2))
    np.save(path, np.array([{}], object), allow_pickle=True)
    (stored,) = open_dump(tmp_path).ranks[0].values().stored
    assert stored is not None
    with pytest.raises(OpscopeError, match="Python objects"):
        open_array(stored)


def test_what_is_a_dump(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path / "dump", rank=3)
    made.save(0, FC, np.ones(2))
    assert is_dump(tmp_path / "dump")
    assert is_dump(tmp_path / "dump/rank_3")
    assert not is_dump(tmp_path)
    assert list(open_dump(tmp_path / "dump").ranks) == [3]
    assert list(open_dump(tmp_path / "dump/rank_3").ranks) == [3]
    with pytest.raises(OpscopeError, match="is no dump"):
        open_dump(tmp_path)


def test_another_name_of_the_network_is_found(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.save(0, FC, np.ones(2))
    (made.root / ".dump_metadata/data_dump.json").unlink()
    assert open_dump(tmp_path).ranks[0].steps == [0]
