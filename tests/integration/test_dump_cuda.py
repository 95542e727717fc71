"""The dump on a GPU, where it differs: streams, memory formats, samples, exceptions, attention."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_dump_shared import dumping, load, manifest, name_of, read_step, rows, write_config
from torch import Tensor, nn

from helpers.program import opscope

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BOTH = pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.conv(x).relu().mean((2, 3)))


def train(steps: int = 2, bad: bool = False) -> None:
    torch.manual_seed(0)
    model = Net().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.randn(2, 3, 6, 5, device="cuda").to(memory_format=torch.channels_last)
        if bad and step == 1:
            x[0, 0, 0, 0] = -1.0
            x = x.clamp(-1, 3).log_()  # where it begins
            x = x.to(memory_format=torch.channels_last)
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def by_name(folder: Path) -> dict[tuple[str, ...], np.ndarray]:
    return {(*name_of(f)[:3], *name_of(f)[5:7]): load(f) for f in folder.glob("*.npy")}


def assert_same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=1e-4, atol=1e-5, err_msg=str(name))


@BOTH
def test_memory_order(tmp_path: Path, enable) -> None:
    with dumping(tmp_path / "a", enable=enable) as logical:
        train()
    with dumping(tmp_path / "b", enable=enable, trans_flag=False) as kept:
        train()
    expected = by_name(logical / "Net/0/1")
    seen = 0
    for file in (kept / "Net/0/1").glob("*.npy"):
        parts = name_of(file)
        array = expected[(*parts[:3], *parts[5:7])]
        if parts[7] == "NHWC":
            array, seen = array.transpose(0, 2, 3, 1), seen + 1
        np.testing.assert_allclose(load(file), array, rtol=1e-4, atol=1e-5)
    assert seen > 3
    text = (kept / "graphs/ms_output_trace_code_graph_0.ir").read_text()
    assert "<Float32xNHWC[cuda:0][2, 6, 5, 3]>" in text


@BOTH
@pytest.mark.parametrize("file_format", ["npy", "bin"])
def test_samples_are_taken_on_the_device(tmp_path: Path, enable, file_format) -> None:
    with dumping(tmp_path / "a", enable=enable) as whole:
        train()
    options = {"sample_mode": 1, "sample_num": 7, "file_format": file_format}
    with dumping(tmp_path / "b", enable=enable, **options) as sampled:
        train()
    if file_format == "bin":
        assert opscope("convert", sampled, cwd=tmp_path).returncode == 0
    expected, found = by_name(whole / "Net/0/1"), by_name(sampled / "Net/0/1")
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        if array.size > 7:
            array = array.reshape(-1)[[i * (array.size - 1) // 6 for i in range(7)]]
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


@BOTH
@pytest.mark.parametrize("mode", ["host", "device"])
@pytest.mark.parametrize("precision", ["high", "low"])
def test_statistics_of_the_device_and_of_the_host(tmp_path: Path, enable, mode, precision) -> None:
    options = {"saved_data": "full", "statistic_category": ["max", "min", "avg", "l2norm", "count"]}
    with dumping(
        tmp_path,
        enable=enable,
        stat_calc_mode=mode,
        device_stat_precision_mode=precision,
        **options,
    ) as rank:
        train()
    arrays = read_step(rank / "Net/0/1")
    for row in rows(rank / "Net/0/1/statistic.csv"):
        name = row["Op Name"].replace("/", "_").replace(".", "_")
        key = f"Parameter.{name}" if row["Op Type"] == "Parameter" else name
        array = arrays[key, row["IO"], int(row["Slot"])].astype(np.float64)
        assert int(row["Count"]) == array.size
        if array.size:
            assert float(row["Max Value"]) == array.max()
            norm = np.sqrt((array**2).sum())
            assert float(row["L2Norm Value"]) == pytest.approx(norm, rel=1e-4)


@BOTH
def test_overflow(tmp_path: Path, enable) -> None:
    with dumping(tmp_path, enable=enable, op_debug_mode=3, iteration="1") as rank:
        train(bad=True)
    table = rows(rank / "Net/0/1/overflow.csv")
    assert [row["Op Type"] for row in table if row["Origin"]] == ["log_"]
    files = read_step(rank / "Net/0/1")
    name = next(row["Op Name"] for row in table if row["Origin"]).replace("/", "_")
    before = files[name, "input", 0]
    assert np.isfinite(before).all() and (before <= 0).any()
    assert not np.isfinite(files[name, "output", 0]).all()


RAISES = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2).cuda()
table = nn.Embedding(4, 3).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *table.parameters()], lr=0.1)
for step in range(3):
    index = torch.full((4,), {index} if step == 2 else 1, device="cuda")
    x = table(index)
    model(x[:, : {columns} if step == 2 else 3]).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
"""


@BOTH
def test_an_exception_of_an_operator(tmp_path: Path, enable) -> None:
    (tmp_path / "train.py").write_text(RAISES.format(index=1, columns=2))
    config = write_config(tmp_path, enable=enable, op_debug_mode=4)
    done = opscope("run", "--dump", config, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    files = {int(name_of(f)[6]): load(f) for f in (tmp_path / "dump").rglob("addmm.*.input.*.npy")}
    assert files[1].shape == (4, 2)
    assert "raised; its inputs are in" in done.stderr


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_an_error_of_the_device(tmp_path: Path, blocking) -> None:
    """After a device-side assertion nothing can be read: that is said, and nothing hangs."""
    (tmp_path / "train.py").write_text(RAISES.format(index=999_999, columns=3))
    config = write_config(tmp_path, op_debug_mode=4)
    done = opscope("run", "--dump", config, "train.py", cwd=tmp_path, CUDA_LAUNCH_BLOCKING=blocking)
    assert done.returncode != 0
    assert "CUDA error" in done.stderr
    assert "internal error" not in done.stderr
    listed = manifest(tmp_path / "dump")
    assert listed["ended"]


@pytest.mark.parametrize("keeps", [False, True])
def test_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps) -> None:
    if keeps:
        monkeypatch.setenv("MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT", "0")
    layer = nn.Linear(64, 3 * 64).cuda().bfloat16()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with dumping(tmp_path, saved_data="full") as rank:
        for _ in range(2):
            x = torch.randn(2, 16, 64, device="cuda", dtype=torch.bfloat16)
            q, k, v = layer(x).view(2, 16, 3, 2, 32).permute(2, 0, 3, 1, 4)
            F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    folder = rank / "Net/0/1"
    forward = [
        f for f in folder.glob("_scaled_dot_product_*.output.*") if "_backward" not in f.name
    ]
    slots = sorted(int(name_of(file)[6]) for file in forward)
    assert slots[:2] == [0, 1], "the output and its logsumexp"
    assert (len(slots) > 2) is keeps
    types = [name_of(file)[8] for file in forward]
    assert ("bfloat16" in types) and (keeps or not any("int" in each for each in types))
    table = [
        r
        for r in rows(folder / "statistic.csv")
        if r["Op Type"].startswith("_scaled_dot_product_") and "_backward" not in r["Op Type"]
    ]
    assert sorted(int(r["Slot"]) for r in table if r["IO"] == "output") == slots


def test_streams_are_in_the_names(tmp_path: Path) -> None:
    stream = torch.cuda.Stream()
    with dumping(tmp_path, enable=False) as rank:
        with torch.cuda.stream(stream):
            train(1)
        stream.synchronize()
    streams = {name_of(f)[3] for f in (rank / "Net/0/0").glob("convolution.*")}
    assert streams == {str(stream.stream_id)}


def test_devices_that_are_not_listed_are_left_out(tmp_path: Path) -> None:
    with dumping(tmp_path, support_device=[1], saved_data="full") as rank:
        train(1)
    assert not list(rank.glob("Net/0/0/convolution.*.npy"))
    with dumping(tmp_path / "b", support_device=[0], saved_data="full") as rank:
        train(1)
    assert list(rank.glob("Net/0/0/convolution.*.npy"))


def test_marks_and_arguments(tmp_path: Path) -> None:
    import opscope as api
    from opscope.dump.selection.marks import marks

    model = Net().cuda()
    marks.clear()
    with dumping(tmp_path, dump_mode=2, save_kernel_args=True) as rank:
        api.set_dump(model.conv)
        model(torch.randn(1, 3, 4, 4, device="cuda")).sum().backward()
    marks.clear()
    names = {name_of(f)[1] for f in rank.rglob("*.npy") if name_of(f)[0] != "Parameter"}
    assert names and all("conv-Conv2d" in name or name.startswith("data-") for name in names)
    (file,) = rank.rglob("convolution.*convolution-op0.json")
    assert json.loads(file.read_text())["padding"] == "[1, 1]"
