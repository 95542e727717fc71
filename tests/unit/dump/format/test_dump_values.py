from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import MadeDump, NewDump, make_node, make_settings

from opscope.dump.format.npy import buffers, dense

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="i8").reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4)[:, ::2],
        np.array(3.5),
        np.zeros((0, 3), "u1"),
        np.array([True, False]),
        np.array([1 + 2j], "c8"),
        np.arange(4, dtype="f2"),
    ],
    ids=str,
)
def test_bytes_are_those_of_numpy_save(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "expected.npy", dense(array))
    header, data = buffers(dense(array))
    assert header + data.tobytes() == (tmp_path / "expected.npy").read_bytes()
    assert np.array_equal(np.load(tmp_path / "expected.npy"), array)


def round_trip(dump: MadeDump, tensor: torch.Tensor) -> tuple[np.ndarray, str]:
    with dump:
        dump.call(make_node(), outputs=[tensor])
        dump.end_step()
    (name,) = dump.files()
    return dump.load("*.npy"), name.split(".")[-2]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ],
)
def test_dtypes_that_numpy_has(new_dump: NewDump, enable: bool, dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    array, name = round_trip(new_dump(enable, input_output=2), tensor)
    assert str(array.dtype) == name == str(dtype).removeprefix("torch.")
    assert array.tolist() == [[0, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_small_floats_become_float32(new_dump: NewDump, enable: bool, dtype: torch.dtype) -> None:
    tensor = torch.tensor([1.5, -0.25, 0.0, NAN]).to(dtype)
    array, name = round_trip(new_dump(enable, input_output=2), tensor)
    assert array.dtype == np.float32
    assert name == str(dtype).removeprefix("torch.")
    assert array[:3].tolist() == [1.5, -0.25, 0.0]
    assert np.isnan(array[3])


@pytest.mark.parametrize(("dtype", "base"), [("int4", torch.int8), ("uint1", torch.uint8)])
def test_integers_below_a_byte(new_dump: NewDump, dtype: str, base: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1], dtype=base).view(getattr(torch, dtype))
    array, name = round_trip(new_dump(input_output=2), tensor)
    assert name == dtype
    assert torch.from_numpy(array).dtype == base
    assert array.tolist() == [0, 1, 1]


SHAPES = {
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 4),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "slice": torch.arange(24.0).reshape(4, 6)[1:3, ::2],
    "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 3),
    "channels last": torch.arange(48.0).reshape(2, 2, 3, 4).to(memory_format=torch.channels_last),
    "permuted": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "with gradient": torch.ones(2, requires_grad=True) * 3,
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "negative view": torch.tensor([1 + 2j]).conj().imag,
    "parameter": torch.nn.Parameter(torch.ones(2)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_values_in_logical_order(new_dump: NewDump, enable: bool, name: str) -> None:
    tensor = SHAPES[name]
    array, _ = round_trip(new_dump(enable, input_output=2), tensor)
    assert array.shape == tuple(tensor.shape)
    assert array.tolist() == tensor.tolist()


def test_an_inplace_update_does_not_reach_what_was_seen(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable) as dump:
        node, tensor = make_node("D/add_-op0", "add_"), torch.zeros(1000)
        for value in range(20):
            call_node = make_node(f"D/add_-op{value}", "add_")
            before = tensor.clone()
            assert before[0] == value
            dump.call(call_node, [tensor], sources=[node.outputs[0] if value else None])
            tensor.add_(1)
            dump.call(make_node(f"D/seen-op{value}", "seen"), outputs=[tensor])
            node = call_node
    for value in range(20):
        assert set(dump.load(f"add_.D_add_-op{value}.*")) == {value}
        assert set(dump.load(f"seen.D_seen-op{value}.*")) == {value + 1}


def test_values_that_cannot_be_saved_are_named_and_counted(
    new_dump: NewDump, enable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    sparse = torch.eye(2).to_sparse()
    with new_dump(enable, input_output=2) as dump:
        for _ in range(3):
            dump.call(make_node("D/spmm-op0", "spmm", outputs=2), outputs=[sparse, torch.ones(1)])
            dump.end_step()
    said = [line for line in capfd.readouterr().err.splitlines() if "sparse" in line]
    assert len(said) == 1
    assert "D/spmm-op0" in said[0]
    manifest = dump.manifest()
    assert manifest["skipped_values"] == 3
    (entry,) = manifest["skipped"]
    assert entry["name"] == "D/spmm-op0"
    assert (entry["io"], entry["slot"], entry["count"]) == ("output", 0, 3)
    assert "sparse" in entry["reason"]
    assert [len(dump.files(step)) for step in range(3)] == [1, 1, 1]


def test_a_value_larger_than_the_memory_bound(tmp_path: Path) -> None:
    settings = make_settings(
        tmp_path / "dump",
        enable=False,
        saved_data="full",
        statistic_category=["max", "md5"],
        input_output=2,
    )
    with MadeDump(settings, memory_limit=10_000) as dump:
        for number in range(4):
            large = torch.full((5000,), float(number), dtype=torch.bfloat16)
            dump.call(make_node(f"D/large-op{number}"), outputs=[large])
            dump.call(make_node(f"D/small-op{number}"), outputs=[large[:10]])
        dump.end_step()
    for number in range(4):
        assert set(dump.load(f"*large-op{number}.*")) == {number}
        assert set(dump.load(f"*small-op{number}.*")) == {number}
    rows = {row["Op Name"]: row for row in dump.table()}
    assert rows["D/large-op3"]["Max Value"] == "3.0"
    assert len(rows) == 8
    assert len({row["MD5"] for row in rows.values()}) == 8
    assert dump.manifest()["iterations"][0]["files"] == 8
