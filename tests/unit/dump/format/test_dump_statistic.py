from __future__ import annotations

import csv
import hashlib

import numpy as np
import pytest
import torch
from made_dump import NewDump, make_node

from opscope.dump.format.statistic import StatisticColumns
from opscope.events import Phase, Want

CATEGORIES = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "count": "Count",
    "negative zero count": "Negative Zero Count",
    "positive zero count": "Positive Zero Count",
    "nan count": "NaN Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
    "zero count": "Zero Count",
    "md5": "MD5",
    "l2norm": "L2Norm Value",
    "hash": "SHA1",
    "hash:md5": "MD5",
    "hash:sha1": "SHA1",
}
FIXED = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_category_has_the_title_of_the_seed(category: str) -> None:
    assert StatisticColumns([category]).header == f"{FIXED},{CATEGORIES[category]}"


def test_columns_come_in_the_users_order_and_once() -> None:
    columns = StatisticColumns(["l2norm", "hash", "max", "hash:sha1", "md5", "max"])
    assert columns.header == f"{FIXED},L2Norm Value,SHA1,Max Value,MD5"


def test_the_header_is_that_of_a_real_dump() -> None:
    real = (
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,"
        "Min Value,Avg Value,Count,Negative Zero Count,Positive Zero Count,NaN Count,"
        "Negative Inf Count,Positive Inf Count,Zero Count,MD5,L2Norm Value"
    )
    assert StatisticColumns(list(CATEGORIES)[:12]).header == real


@pytest.mark.parametrize("digests", [[], ["md5"]], ids=["rows that are ready", "rows made here"])
def test_numbers_read_back_exactly(new_dump: NewDump, enable: bool, digests: list[str]) -> None:
    numbers = [name for name in CATEGORIES if "md5" not in name and "hash" not in name]
    tensor = torch.tensor([[0.1, -2.0, 0.0], [NAN, INF, -INF]], dtype=torch.float64)
    with new_dump(enable, saved_data="statistic", statistic_category=[*numbers, *digests]) as dump:
        dump.call(make_node(), [tensor], [tensor + 1])
        dump.end_step()
    first, second = dump.table()
    assert (first["IO"], second["IO"]) == ("input", "output")
    assert float(first["Max Value"]) == INF
    assert float(first["Min Value"]) == -INF
    assert float(first["Avg Value"]) == np.mean([0.1, -2.0, 0.0])
    assert float(first["L2Norm Value"]) == pytest.approx(np.linalg.norm([0.1, -2.0]), rel=1e-15)
    counts = {title: first[title] for title in first if title.endswith("Count")}
    assert counts == {
        "Count": "6",
        "Negative Zero Count": "2",
        "Positive Zero Count": "2",
        "NaN Count": "1",
        "Negative Inf Count": "1",
        "Positive Inf Count": "1",
        "Zero Count": "1",
    }
    assert not dump.files()


def test_who_and_what_a_row_is_about(new_dump: NewDump, enable: bool) -> None:
    name = 'Default/network-Net/odd,"name"-X/add-op0'
    with new_dump(enable, saved_data="statistic", input_output=2) as dump:
        dump.call(make_node())
        dump.call(make_node(name, "add"), outputs=[torch.ones(2, 3).bfloat16()], stream=4)
        dump.call(make_node("D/s-op0", "s"), outputs=[torch.tensor(1)])
    first, second = dump.table()
    assert list(first.values())[:10] == [
        *("add", name, "1", "4", "1700000000000001"),
        *("output", "0", "12", "bfloat16", "[2,3]"),
    ]
    assert second["Shape"] == "[]"
    assert second["Data Size"] == "8"


def test_integers_are_exact(new_dump: NewDump, enable: bool) -> None:
    tensor = torch.tensor([2**62 + 1, -(2**53) - 1])
    options = {"saved_data": "statistic", "statistic_category": ["max", "min"]}
    with new_dump(enable, input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[tensor])
    (row,) = dump.table()
    assert int(row["Max Value"]) == 2**62 + 1
    assert int(row["Min Value"]) == -(2**53) - 1


def test_floats_have_all_their_digits(new_dump: NewDump, enable: bool) -> None:
    tensor = torch.tensor([1 / 3, 16777217.0], dtype=torch.float64)
    options = {"saved_data": "statistic", "statistic_category": ["max", "min", "avg"]}
    with new_dump(enable, input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[tensor])
    (row,) = dump.table()
    assert float(row["Min Value"]) == 1 / 3
    assert float(row["Max Value"]) == 16777217.0
    assert float(row["Avg Value"]) == (1 / 3 + 16777217.0) / 2


def test_an_empty_value_has_a_row(new_dump: NewDump, enable: bool) -> None:
    categories = ["max", "count", "l2norm", "md5"]
    options = {"saved_data": "full", "statistic_category": categories}
    with new_dump(enable, input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[torch.zeros(0, 3)])
    (row,) = dump.table()
    assert row["Count"] == row["Data Size"] == "0"
    assert row["MD5"] == hashlib.md5(b"").hexdigest()
    assert np.isnan(float(row["Max Value"]))


VALUES = {
    "float32": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "transposed": torch.tensor([[1.0, 3.0], [2.0, 4.0]]).t(),
    "bfloat16": torch.tensor([1.0, NAN, -2.5]).bfloat16(),
    "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e5m2),
    "scalar bfloat16": torch.tensor(1.5).bfloat16(),
    "strided bfloat16": torch.arange(12.0).bfloat16().reshape(3, 4).t()[::2],
    "bool": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j]).conj(),
}


@pytest.mark.parametrize("name", VALUES)
def test_digests_are_of_the_original_bytes(new_dump: NewDump, enable: bool, name: str) -> None:
    tensor = VALUES[name]
    plain = tensor.resolve_conj().contiguous().reshape(-1)
    expected = plain.view(torch.uint8).numpy().tobytes()
    options = {"saved_data": "full", "statistic_category": ["hash", "hash:md5", "max"]}
    with new_dump(enable, input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[tensor])
    (row,) = dump.table()
    assert row["SHA1"] == hashlib.sha1(expected).hexdigest()
    assert row["MD5"] == hashlib.md5(expected).hexdigest()
    assert len(dump.files()) == 1


def test_the_md5_of_a_real_dump(new_dump: NewDump) -> None:
    options = {"saved_data": "statistic", "statistic_category": ["md5"]}
    with new_dump(input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[torch.tensor([[1.0, 2.0], [3.0, 4.0]])])
    assert dump.table()[0]["MD5"] == "b4ad64bc24f643726bddf5606af738da"


def test_complex_statistics_are_of_the_magnitude(new_dump: NewDump, enable: bool) -> None:
    options = {"saved_data": "full", "statistic_category": ["max", "l2norm", "hash"]}
    with new_dump(enable, input_output=2, **options) as dump:
        dump.call(make_node(), outputs=[torch.tensor([3 + 4j, 0j])])
    (row,) = dump.table()
    assert (row["Max Value"], row["L2Norm Value"], row["Data Size"]) == ("5.0", "5.0", "16")
    assert dump.load("*.npy").tolist() == [3 + 4j, 0j]


def test_lines_end_as_rfc_4180_says(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="statistic", input_output=2) as dump:
        for _ in range(3):
            dump.call(make_node(), outputs=[torch.ones(2, 2)])
    data = (dump.directory() / "statistic.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") == 4
    assert data.endswith(b"\r\n")


def test_a_table_per_iteration_and_graph(new_dump: NewDump, enable: bool) -> None:
    options = {"include": frozenset({"eval"})}
    with new_dump(enable, saved_data="statistic", input_output=2, options=options) as dump:
        for step in range(3):
            dump.call(make_node(), outputs=[torch.tensor([float(step)])])
            validation = make_node("D/v-op0", "v", graph=1, phase=Phase.EVAL)
            dump.call(validation, outputs=[torch.tensor([step + 0.5])])
            dump.end_step()
    for step in range(3):
        assert [row["Max Value"] for row in dump.table(step)] == [f"{step}.0"]
        assert [row["Max Value"] for row in dump.table(step, graph=1)] == [f"{step}.5"]


@pytest.mark.parametrize(
    ("common", "expected"),
    [
        ({}, Want.INPUT_VALUES | Want.OUTPUT_VALUES | Want.PARAMETERS),
        ({"input_output": 1}, Want.INPUT_VALUES),
        ({"input_output": 2}, Want.INPUT_VALUES | Want.OUTPUT_VALUES | Want.PARAMETERS),
        (
            {"saved_data": "statistic"},
            Want.INPUT_STATS | Want.OUTPUT_STATS,
        ),
        (
            {"saved_data": "statistic", "input_output": 2},
            Want.OUTPUT_STATS | Want.OUTSIDE_STATS,
        ),
        (
            {"saved_data": "full", "input_output": 2},
            Want.INPUT_VALUES | Want.OUTPUT_STATS | Want.OUTPUT_VALUES | Want.PARAMETERS,
        ),
        ({"saved_data": "statistic", "input_output": 1}, Want.INPUT_STATS),
        (
            {"saved_data": "statistic", "statistic_category": ["max", "hash"], "input_output": 1},
            Want.INPUT_VALUES,
        ),
        ({"saved_data": "full", "input_output": 1}, Want.INPUT_VALUES | Want.INPUT_STATS),
        (
            {"saved_data": "tensor", "statistic_category": ["md5"], "input_output": 1},
            Want.INPUT_VALUES,
        ),
    ],
)
def test_asks_for_rows_unless_a_digest_needs_the_value(
    new_dump: NewDump, common: dict[str, object], expected: Want
) -> None:
    with new_dump(**common) as dump:
        assert dump.sink.wants(make_node()) == expected


def test_many_rows_in_one_delivery(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="statistic") as dump:
        inputs = [torch.tensor([float(slot)]) for slot in range(1700)]
        dump.call(make_node("D/_foreach_add-op0", "_foreach_add"), inputs)
    assert [float(row["Max Value"]) for row in dump.table()] == list(range(1700))
    with open(dump.directory() / "statistic.csv", newline="") as file:
        assert len(list(csv.reader(file))) == 1701
