"""A damaged dump: what cannot be is left out and noted, the rest is checked."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import FC, RELU, MadeFiles

from opscope.commands import main
from opscope.errors import OpscopeError
from opscope.read.dump import DumpRank, open_dump
from opscope.read.stored import Stored, open_array


def rank_of(path: Path) -> DumpRank:
    return open_dump(path).ranks[0]


def test_rows_of_statistics_that_cannot_be(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    columns = ["max", "min", "nan count"]
    made.statistic(0, [(FC, np.ones(3)), (RELU, np.ones(3)), (RELU, np.ones(3))], columns)
    file = made.directory(0) / "statistic.csv"
    head, *rows = file.read_text().splitlines()
    wrong = [
        rows[0].replace('"', "").replace("[3]", "[-3]"),
        rows[0].replace("output,0", f"output,{2**40}"),
        rows[0][:-1] + str(2**70),
        rows[0][:-1] + "-1",
        '"' + "x" * 200_000 + '"',
        rows[0][:20],
    ]
    file.write_text("\n".join([head, *wrong, *rows]) + "\n")
    rank = rank_of(tmp_path)
    assert len(rank.values().records) == 3
    assert rank.problems["lines of statistic.csv that cannot be read"] == len(wrong)


def test_extremes_that_are_no_64_bit_integers(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.statistic(0, [(FC, np.ones(3, int)), (RELU, np.ones(3, int))], ["max", "min"])
    file = made.directory(0) / "statistic.csv"
    head, first, second = file.read_text().splitlines()
    first = first.removesuffix("1,1") + f"{2**63},-1"
    second = second.removesuffix("1,1") + f"{2**65},{2**64}"
    file.write_text("\n".join([head, first, second]) + "\n")
    records = rank_of(tmp_path).values().records
    assert records["max"].tolist() == [2.0**63, 2.0**65]


def test_a_statistic_that_is_a_fifo(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.save(0, FC, np.ones(2))
    os.mkfifo(made.directory(0) / "statistic.csv")
    rank = rank_of(tmp_path)
    assert len(rank.values().records) == 1
    problem = "lines of statistic.csv that cannot be read: it is a FIFO, no regular file"
    assert rank.problems == {problem: 1}


def test_names_with_numbers_that_no_value_has(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    path = made.save(0, FC, np.ones(2))
    for number in ("9" * 30, str(2**32), "²"):
        (path.parent / path.name.replace("output.0", f"output.{number}")).write_bytes(b"")
    (made.root / "Net/0" / ("9" * 25)).mkdir()
    (made.root / "Net/0/²").mkdir()
    rank = rank_of(tmp_path)
    assert rank.steps == [0]
    assert len(rank.values().records) == 1
    assert rank.problems == {"files of a kind that is not read here": 3}


def test_a_net_name_does_not_lead_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/0/0").mkdir(parents=True)
    made = MadeFiles(tmp_path / "dump", net_name="../../elsewhere")
    made.save(3, FC, np.ones(2))
    assert rank_of(tmp_path / "dump").steps == [3]


def test_a_manifest_of_other_types(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path)
    made.save(0, FC, np.ones(2))
    made.manifest(
        dropped_values="many",
        skipped=7,
        iterations=[{"iteration": 1, "complete": False}, {"complete": 1}],
    )
    assert set(rank_of(tmp_path).problems) == {
        'manifest.json: "dropped_values" is "many", must be a whole number',
        'manifest.json: "skipped" is 7, must be a list',
        "step 1 is not complete",
        'manifest.json: iterations: "complete" is 1, must be true or false',
    }


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, -4), }",
        "{'descr': 'S0', 'fortran_order': False, 'shape': (10000000000,), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'shape': " + "(" * 3000 + ")" * 3000 + "}",
        "-" * 9000 + "1",
        "[" * 60000,
        "7",
    ],
)
def test_headers_of_npy_files_that_cannot_be(tmp_path: Path, head: str) -> None:
    path = tmp_path / "x.npy"
    data = head.encode()
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(data)) + data + bytes(64))
    with pytest.raises(OpscopeError, match=f"{path} is damaged: "):
        open_array(Stored(str(path)))


def packed(made: MadeFiles, step: int) -> tuple[Path, dict[str, Any], bytes]:
    """A packed file of two values: its path, its head and its data."""
    names = [made.name("addmm", FC, "float32"), made.name("relu", RELU, "float32")]
    made.pack(step, {name: np.ones(3, np.float32) for name in names}, {})
    path = made.directory(step) / "values.safetensors"
    size = int.from_bytes(path.read_bytes()[:8], "little")
    return path, json.loads(path.read_bytes()[8 : 8 + size]), path.read_bytes()[8 + size :]


def write_pack(path: Path, head: dict[str, Any], data: bytes) -> None:
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [2**62, 8]},
        {"shape": [-3]},
        {"shape": 3},
        {"dtype": "F7"},
        {"dtype": None},
        {"data_offsets": [0, 2**63 - 1]},
        {"data_offsets": [4, 4]},
        {"data_offsets": [100, 112]},
        {"data_offsets": [0]},
    ],
    ids=str,
)
def test_a_packed_value_that_cannot_be(
    tmp_path: Path, changes: dict[str, Any], capsys: Any
) -> None:
    made = MadeFiles(tmp_path / "dump")
    path, head, data = packed(made, 0)
    damaged = next(name for name in head if name.startswith("addmm"))
    head[damaged] |= changes
    write_pack(path, head, data)
    (stored,) = rank_of(tmp_path / "dump").values().stored
    assert stored is not None
    assert open_array(stored).tolist() == [1, 1, 1]
    assert f"{path} head: {damaged}: " in capsys.readouterr().err


def test_converting_goes_on_after_a_damaged_pack(tmp_path: Path, capsys: Any) -> None:
    made = MadeFiles(tmp_path / "dump")
    path, head, data = packed(made, 0)
    head[next(name for name in head if name.startswith("addmm"))]["shape"] = [2**40]
    write_pack(path, head, data)
    packed(made, 1)
    assert main(["convert", str(tmp_path / "dump")]) == 2
    assert len([*(made.root / "Net/0/1").glob("*.npy")]) == 2
    assert f"{path}: cannot be read as a packed file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../x.npy", ".x.npy", "train.py", "a\nb.npy", "\udcff.npy"])
def test_names_that_convert_does_not_write(tmp_path: Path, name: str, capsys: Any) -> None:
    made = MadeFiles(tmp_path / "dump")
    made.pack(0, {name: np.ones(3, np.float32)}, {})
    before = sorted((tmp_path / "dump").rglob("*"))
    assert main(["convert", str(tmp_path / "dump")]) == 2
    assert sorted((tmp_path / "dump").rglob("*")) == before
    assert "is no name of a file" in capsys.readouterr().err
