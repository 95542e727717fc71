"""Tensors in safetensors files, written without that package and read with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from opscope.safetensors_file import CODES, DTYPES, Entry, can_save, framed, read_head, save_tensors

safetensors = pytest.importorskip("safetensors.torch")

TENSORS = {
    "f64": torch.randn(2, 3, dtype=torch.float64),
    "f32": torch.tensor([1.5, float("nan"), float("inf"), -0.0]),
    "f16": torch.tensor([65504.0], dtype=torch.float16),
    "bf16": torch.tensor([3e38], dtype=torch.bfloat16),
    "f8": torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn),
    "i64": torch.tensor([-(2**62)]),
    "u8": torch.arange(7, dtype=torch.uint8),
    "u16": torch.tensor([65535], dtype=torch.uint16),
    "bool": torch.tensor([[True], [False]]),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 3),
    "transposed": torch.arange(6.0).view(2, 3).t(),
    "expanded": torch.ones(1).expand(4),
    "strided": torch.arange(10)[::3],
    "negated": torch.complex(torch.ones(2), torch.arange(2.0)).conj().imag,
    "with gradient": torch.ones(2, requires_grad=True),
}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    assert all(map(can_save, TENSORS.values()))
    save_tensors(path, TENSORS, {"about": "something"})
    found = safetensors.load_file(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        one, other = (
            t.detach().contiguous().reshape(-1).resolve_neg() for t in (found[name], tensor)
        )
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), name
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"about": "something"}
    assert [*tmp_path.iterdir()] == [path]


def test_nothing_at_all(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x", {})
    assert safetensors.load_file(tmp_path / "x") == {}


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64),
        torch.empty(2, device="meta"),
        torch.nn.LazyLinear(2).weight,
    ],
    ids=["sparse", "complex", "meta", "lazy"],
)
def test_what_has_no_place_there(tensor: torch.Tensor) -> None:
    assert not can_save(tensor)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    class Breaks:
        def items(self) -> object:
            yield "good", torch.ones(2)
            yield "bad", torch.eye(2).to_sparse()

    path = tmp_path / "x"
    save_tensors(path, {"old": torch.ones(1)})
    with pytest.raises((RuntimeError, KeyError, NotImplementedError)):
        save_tensors(path, Breaks())  # type: ignore[arg-type]
    assert {*safetensors.load_file(path)} == {"old"}
    assert [*tmp_path.iterdir()] == [path]


def test_the_head_says_where_everything_is(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_tensors(path, {"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.int16)}, {"k": "v"})
    head = read_head(path)
    assert head.entries == {"a": Entry("F32", (2, 3), 0, 24), "b": Entry("I16", (4,), 24, 32)}
    assert (head.metadata, head.damaged) == ({"k": "v"}, {})
    assert head.start + 32 == path.stat().st_size
    assert {*CODES.values()} == {*DTYPES}


GOOD = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ([], "must be an object"),
        ({}, '"dtype" must be one of'),
        (GOOD | {"dtype": "X"}, '"dtype" must be one of'),
        (GOOD | {"dtype": ["U8"]}, '"dtype" must be one of'),
        (GOOD | {"shape": [-2]}, '"shape" must be a list'),
        (GOOD | {"shape": [True, 2]}, '"shape" must be a list'),
        (GOOD | {"shape": [3]}, '"data_offsets" must be the places of 3 bytes'),
        (GOOD | {"data_offsets": [0, 2, 2]}, '"data_offsets" must be the places of 2 bytes'),
        (GOOD | {"data_offsets": [1, 3]}, '"data_offsets" must be the places of 2 bytes'),
        (GOOD | {"data_offsets": None}, '"data_offsets" must be the places of 2 bytes'),
    ],
)
def test_entries_that_cannot_be_are_named(tmp_path: Path, entry: object, reason: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(framed(json.dumps({"good": GOOD, "bad": entry}).encode()) + b"ab")
    head = read_head(path)
    assert {*head.entries} == {"good"}
    assert head.damaged["bad"].startswith(reason)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"short", "too short"),
        (b"\xff" * 20, "longer than the file"),
        (framed(b"[]"), "no JSON object"),
        (framed(b"[" * 100_000), "nested too deeply"),
        (framed(b"{"), "Expecting"),
        (framed(b'{"__metadata__": {"k": 1}}'), "no object of texts"),
    ],
)
def test_heads_that_cannot_be(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_head(tmp_path / "x")
