"""Values that a hit saved, found by node and slot; small floats against torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from opscope.events import IO, Node, Outside, Phase, Stack
from opscope.read.hit_values import hit_steps, value_at_hit
from opscope.read.small_floats import widened
from opscope.safetensors_file import save_tensors

SMALL = [("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)]


@pytest.mark.parametrize("code, dtype", SMALL, ids=str)
def test_float8_is_what_torch_makes_of_every_byte(code: str, dtype: torch.dtype) -> None:
    every = torch.arange(256).to(torch.uint8)
    expected = every.view(dtype).float().numpy()
    np.testing.assert_array_equal(widened(every.numpy(), code), expected)


def test_bfloat16_is_what_torch_makes_of_it() -> None:
    tensor = torch.randn(3, 5).bfloat16()
    bits = tensor.view(torch.uint16).numpy()
    np.testing.assert_array_equal(widened(bits, "BF16"), tensor.float().numpy())


@pytest.fixture
def rank(tmp_path: Path) -> Path:
    """A rank that saved the state of step 4: its origin, two parameters, and the batch."""
    state = tmp_path / "hits/step_4"
    state.mkdir(parents=True)
    save_tensors(state / "origin.safetensors", {"output.0": torch.tensor([float("-inf")])})
    parameters = {"w": torch.tensor([1.5, -2.0]).bfloat16(), "b": torch.tensor([3.0])}
    save_tensors(state / "parameters.safetensors", parameters)
    save_tensors(state / "batch.safetensors", {"input0": torch.arange(4)})
    (state / "state.json").write_text(json.dumps({"step": 4, "node": "Default/log-op0"}))
    return tmp_path


def node_of(name: str) -> Node:
    node = Node(1, 0, name, "log", "aten.log", "Default", "", Phase.FORWARD, Stack(0, ()))
    node.sources += [Outside("parameter", "w"), Outside("batch", "input0"), Outside("outside", "w")]
    return node


def test_what_a_hit_saved_is_found(rank: Path) -> None:
    assert hit_steps(rank) == [4]
    origin = node_of("Default/log-op0")
    output = value_at_hit(rank, 0, origin, IO.OUTPUT, 0, 4)
    assert output is not None and output.is_saved and output.stats().neginf == 1
    weight = value_at_hit(rank, 0, origin, IO.INPUT, 0, 4)
    assert weight is not None and weight.dtype == "bfloat16" and weight.shape == (2,)
    assert weight.array().tolist() == [1.5, -2.0]
    batch = value_at_hit(rank, 0, origin, IO.INPUT, 1, 4)
    assert batch is not None and batch.array().tolist() == [0, 1, 2, 3]


def test_nothing_is_made_up(rank: Path) -> None:
    other = node_of("Default/other-op0")
    assert value_at_hit(rank, 0, other, IO.OUTPUT, 0, 4) is None, "it is not the origin"
    assert value_at_hit(rank, 0, other, IO.INPUT, 2, 4) is None, "it only has the name of one"
    assert value_at_hit(rank, 0, other, IO.INPUT, 9, 4) is None
    assert value_at_hit(rank, 0, other, IO.INPUT, 0, 3) is None
    (rank / "hits/step_4/parameters.safetensors").write_bytes(b"damaged")
    assert value_at_hit(rank, 0, other, IO.INPUT, 0, 4) is None
