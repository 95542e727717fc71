"""How a dump of a real training saves values: samples, memory order, packed files, arguments."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from test_dump_shared import (
    dumping,
    load,
    manifest,
    name_of,
    npy_files,
    read_step,
    rows,
)
from torch import Tensor, nn

BOTH = pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])


class Net(nn.Module):
    """A convolution in channels-last memory, complex numbers and bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.phase = nn.Parameter(torch.randn(6, dtype=torch.complex64))
        self.last = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x).relu()
        y = x.mean((2, 3)).to(torch.bfloat16).float()
        return self.last((y.to(torch.complex64) * self.phase).abs())


def train(steps: int = 2) -> None:
    torch.manual_seed(0)
    model = Net().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(steps):
        x = torch.randn(2, 3, 5, 7).contiguous(memory_format=torch.channels_last)
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training, dumped as plain npy files with all elements."""
    torch.set_num_threads(1)
    with dumping(tmp_path_factory.mktemp("whole")) as rank:
        train()
    return rank


def by_name(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of one iteration by file name without its time."""
    found = {}
    for file in folder.glob("*.npy"):
        parts = name_of(file)
        found[".".join([*parts[:4], *parts[5:]])] = load(file)
    return found


def test_channels_last_is_saved_in_logical_order(whole: Path) -> None:
    files = read_step(whole / "Net/0/0")
    output = files["Default_network-Net_conv-Conv2d_convolution-op0", "output", 0]
    assert output.shape == (2, 6, 5, 7)
    assert {name_of(file)[7] for file in npy_files(whole)} == {"DefaultFormat"}


# ------------------------------------------------------------------ samples


@BOTH
@pytest.mark.parametrize("number", [1, 2, 10, None])
def test_a_sample_is_evenly_spaced_with_both_ends(whole: Path, tmp_path, enable, number) -> None:
    options = {} if number is None else {"sample_num": number}
    with dumping(tmp_path, enable=enable, sample_mode=1, **options) as rank:
        train()
    count = number or 100
    cut = 0
    for step in ("0", "1"):
        expected, found = by_name(whole / "Net/0" / step), by_name(rank / "Net/0" / step)
        assert found.keys() == expected.keys()
        with (rank / "Net/0" / step / "samples.csv").open(newline="") as lines:
            listed = {row["File"]: row for row in csv.DictReader(lines)}
        for file in (rank / "Net/0" / step).glob("*.npy"):
            parts = name_of(file)
            array = expected[".".join([*parts[:4], *parts[5:]])]
            if array.size <= count:
                np.testing.assert_array_equal(load(file), array)
                assert file.name not in listed
                continue
            cut += 1
            last = array.size - 1
            at = [0] if count == 1 else [i * last // (count - 1) for i in range(count)]
            assert at[0] == 0 and (count == 1 or at[-1] == last)
            np.testing.assert_array_equal(load(file), array.reshape(-1)[at])
            assert load(file).dtype == array.dtype
            assert json.loads(listed[file.name]["Shape"]) == list(array.shape)
    assert cut > 10
    assert manifest(tmp_path / "dump")["sample_num"] == count


@BOTH
@pytest.mark.parametrize("category", ["max", "md5"])
def test_statistics_beside_a_sample_are_of_the_whole(
    tmp_path: Path, whole: Path, enable, category
) -> None:
    options = {"saved_data": "full", "statistic_category": [category, "count"]}
    with dumping(tmp_path, enable=enable, sample_mode=1, sample_num=4, **options) as rank:
        train(1)
    arrays = read_step(whole / "Net/0/0")
    table = [r for r in rows(rank / "Net/0/0/statistic.csv") if r["Op Type"] == "convolution"]
    assert len(table) == 4
    for row in table:
        array = arrays[row["Op Name"].replace("/", "_"), row["IO"], int(row["Slot"])]
        assert int(row["Count"]) == array.size
        if category == "max":
            assert float(row["Max Value"]) == array.max()
    assert all(load(file).size <= 4 for file in npy_files(rank / "Net/0/0"))


# ------------------------------------------------------------------ memory order


@BOTH
def test_memory_order_has_its_format_in_the_name(tmp_path: Path, whole: Path, enable) -> None:
    options = {"saved_data": "full", "statistic_category": ["md5", "max"]}
    with dumping(tmp_path, enable=enable, trans_flag=False, **options) as rank:
        train()
    logical = read_step(whole / "Net/0/1")
    kept = 0
    for file in (rank / "Net/0/1").glob("*.npy"):
        op_type, name, _, _, _, io, slot, layout, _ = name_of(file)
        key = f"Parameter.{name}" if op_type == "Parameter" else name
        array = logical[key, io, int(slot)]
        if layout == "NHWC":
            array = array.transpose(0, 2, 3, 1)
            kept += 1
        else:
            assert layout == "DefaultFormat"
        np.testing.assert_array_equal(load(file), array)
        assert layout == "DefaultFormat" or load(file).flags.c_contiguous
    assert kept > 8, "inputs, weights, outputs and gradients of the convolution"
    with dumping(tmp_path / "t", enable=enable, **options) as rank_of_logical:
        train()
    about = ("Op Name", "IO", "Slot", "Shape", "MD5", "Max Value")
    tables = [
        sorted(tuple(row[key] for key in about) for row in rows(each / "Net/0/1/statistic.csv"))
        for each in (rank, rank_of_logical)
    ]
    assert tables[0] == tables[1], "shapes and digests are of the logical order"


# ------------------------------------------------------------------ packed files


def run_convert(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opscope", "convert", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@BOTH
def test_packed_values_are_those_of_the_files(tmp_path: Path, whole: Path, enable) -> None:
    options = {"saved_data": "full", "file_format": "bin"}
    with dumping(tmp_path, enable=enable, **options) as rank:
        train()
    assert [f.parent.name for f in npy_files(rank)] in ([], ["constants"])
    packs = sorted(rank.rglob("*.safetensors"))
    assert [str(pack.relative_to(rank)) for pack in packs] == [
        f"Net/0/{step}/values.safetensors" for step in (0, 1)
    ]
    assert all(len(rows(pack.parent / "statistic.csv")) > 50 for pack in packs)
    for pack, listed in zip(packs, manifest(tmp_path / "dump")["iterations"], strict=True):
        tensors = load_file(pack)
        assert listed["files"] == 1
        assert listed["bytes"] == pack.stat().st_size
        assert listed["values"] >= len(tensors)
        assert listed["complete"]
    done = run_convert(rank)
    assert done.returncode == 0, done.stderr
    for step in ("0", "1"):
        expected, found = by_name(whole / "Net/0" / step), by_name(rank / "Net/0" / step)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, name
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    again = run_convert(rank, "--json")
    assert [each["files"] for each in json.loads(again.stdout)] == [
        len(list(pack.parent.glob("*.npy"))) for pack in packs
    ]


def test_packed_samples_in_memory_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"trans_flag": False, "sample_mode": 1, "sample_num": 50}
    with dumping(tmp_path / "npy", **options) as plain:
        train(1)
    with dumping(tmp_path / "bin", enable=False, file_format="bin", **options) as packed:
        train(1)
    target = tmp_path / "converted"
    assert f"next: opscope convert {packed.parent}\n" in capsys.readouterr().err
    assert run_convert(packed, "--output", target).returncode == 0
    assert not list((packed / "Net/0/0").glob("*.npy"))
    expected, found = by_name(plain / "Net/0/0"), by_name(target / "Net/0/0")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    missing = run_convert(tmp_path / "none")
    assert missing.returncode == 2 and "there is no such file" in missing.stderr
    empty = run_convert(tmp_path)
    assert empty.returncode == 2 and "no values.safetensors" in empty.stderr
    for content in (b"", b"12345678901234567890", b"\x02\0\0\0\0\0\0\0{}"):
        file = tmp_path / "values.safetensors"
        file.write_bytes(content)
        done = run_convert(file)
        assert done.returncode == 2, content
        assert "Traceback" not in done.stderr


# ------------------------------------------------------------------ arguments


@BOTH
@pytest.mark.parametrize("saved", ["tensor", "statistic"])
def test_arguments_are_those_of_the_iteration(tmp_path: Path, enable, saved) -> None:
    with dumping(tmp_path, enable=enable, saved_data=saved, save_kernel_args=True) as rank:
        train()
    for step, rate in (("0", -0.1), ("1", -0.05)):
        folder = rank / "Net/0" / step
        (file,) = folder.glob("convolution.Default_network-Net_conv-Conv2d_convolution-op0.json")
        arguments = json.loads(file.read_text())
        assert arguments["stride"] == "[1, 1]"
        assert arguments["padding"] == "[1, 1]"
        assert arguments["transposed"] == "False"
        assert all(isinstance(value, str) for value in arguments.values())
        linear = next(folder.glob("addmm.*addmm-op0.json"))
        assert json.loads(linear.read_text()) == {"beta": "1", "alpha": "1"}, "also defaults"
        (update,) = folder.glob("add_.Default_optimizer-SGD_add_-op0.json")
        assert float(json.loads(update.read_text())["alpha"]) == rate, "also when it changes"
    order = (rank / "execution_order/ms_execution_order_graph_0.csv").read_text().splitlines()[1:]
    written = {file.name.split(".")[1] for file in (rank / "Net/0/1").glob("*.json")}
    assert {name.replace("/", "_") for name in order} >= written
    assert len(written) > 30


def test_arguments_of_selected_operators_only(tmp_path: Path) -> None:
    options = {"dump_mode": 1, "kernels": ["convolution"], "save_kernel_args": True}
    with dumping(tmp_path, **options) as rank:
        train(1)
    found = sorted(file.name for file in rank.rglob("Net/0/0/*.json"))
    assert [name.split(".")[0] for name in found] == ["convolution", "convolution_backward"]


def test_no_arguments_unless_asked(whole: Path) -> None:
    assert not list((whole / "Net").rglob("*.json"))


# ------------------------------------------------------------------ constants


TABLE = torch.arange(12.0).reshape(3, 4)
HIDDEN: dict[str, Tensor] = {}


class WithConstants(nn.Module):
    """Reads a table made before training, a literal, and what it left in the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x) * self.scale + TABLE * torch.tensor(0.25) * 3.0
        if "last" in HIDDEN:
            y = y + HIDDEN["last"]
        HIDDEN["last"] = y.detach() * 1.0
        return y


def train_with_constants(steps: int = 3) -> None:
    HIDDEN.clear()
    torch.manual_seed(0)
    model = WithConstants()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


@BOTH
@pytest.mark.parametrize("io", [0, 2])
def test_constants_are_saved_once(tmp_path: Path, enable, io) -> None:
    with dumping(tmp_path, enable=enable, input_output=io) as rank:
        train_with_constants()
    folder = rank / "Net/0/constants"
    files = sorted(folder.iterdir())
    assert [name_of(file)[:4] for file in files] == [
        ["Parameter", f"data-{number}", "0", "0"] for number in range(2)
    ]
    assert {tuple(name_of(file)[5:]) for file in files} == {
        ("output", "0", "DefaultFormat", "float32")
    }
    arrays = sorted(map(load, files), key=np.size)
    np.testing.assert_array_equal(arrays[0], np.float32(0.25))
    np.testing.assert_array_equal(arrays[1], TABLE.numpy())
    listed = manifest(tmp_path / "dump")
    assert listed["constants"]["files"] == 2
    assert listed["constants"]["bytes"] == sum(file.stat().st_size for file in files)
    assert [each["iteration"] for each in listed["iterations"]][:3] == [0, 1, 2]


@pytest.mark.parametrize("options", [{"input_output": 1}, {"saved_data": "statistic"}], ids=str)
def test_constants_belong_to_saved_outputs(tmp_path: Path, options) -> None:
    with dumping(tmp_path, **options) as rank:
        train_with_constants(1)
    assert not (rank / "Net/0/constants").exists()


# ------------------------------------------------------------------ useless outputs


library = torch.library.Library("opscope_tests_attention", "DEF")
library.define(
    "attend(Tensor x) -> (Tensor output, Tensor philox_seed, Tensor philox_offset,"
    " Tensor debug_attn_mask)"
)


def attend(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    seed = torch.tensor(3)
    return x * 2, seed, seed + 1, torch.zeros(2, 2)


library.impl("attend", attend, "CompositeExplicitAutograd")


@pytest.mark.parametrize("saved", ["tensor", "statistic", "full"])
@pytest.mark.parametrize("keeps", [False, True])
def test_outputs_that_nothing_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved, keeps
) -> None:
    if keeps:
        monkeypatch.setenv("MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT", "0")
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with dumping(tmp_path, saved_data=saved) as rank:
        y = model(torch.ones(2, 2))
        for _ in range(2):
            torch.ops.opscope_tests_attention.attend(y.detach())
        y.sum().backward()
        optimizer.step()
    folder = rank / "Net/0/0"
    slots = [0, 1, 2, 3] if keeps else [0]
    if saved != "statistic":
        files = folder.glob("opscope_tests_attention_attend.*.output.*")
        assert sorted(int(name_of(file)[6]) for file in files) == sorted(slots * 2)
    if saved != "tensor":
        table = rows(folder / "statistic.csv")
        found = [r for r in table if r["Op Type"].endswith("attend") and r["IO"] == "output"]
        assert sorted(int(row["Slot"]) for row in found) == sorted(slots * 2)
