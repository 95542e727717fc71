"""How Print shows tensors: the lines of the guide and of the original's output."""

from __future__ import annotations

import pytest
import torch

from opscope.printing.text import shown_dtype, tensor_text

NUMBERS = torch.tensor([[1, -2.5e-7, 3e10], [float("nan"), float("inf"), -0.0]])


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (
            torch.ones(2, 1, dtype=torch.int32),
            "Tensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])",
        ),
        (
            NUMBERS,
            "Tensor(shape=[2, 3], dtype=Float32, value=\n"
            "[[ 1.00000000e+00 -2.49999999e-07  3.00000010e+10]\n"
            " [            nan             inf -0.00000000e+00]])",
        ),
        (
            NUMBERS.half(),
            "Tensor(shape=[2, 3], dtype=Float16, value=\n"
            "[[ 1.0000e+00 -2.3842e-07         inf]\n"
            " [        nan         inf -0.0000e+00]])",
        ),
        (
            torch.arange(3000, dtype=torch.int32).reshape(3, 1000),
            "Tensor(shape=[3, 1000], dtype=Int32, value=\n"
            "[[   0    1    2 ...  997  998  999]\n"
            " [1000 1001 1002 ... 1997 1998 1999]\n"
            " [2000 2001 2002 ... 2997 2998 2999]])",
        ),
        (torch.tensor([True, False]), "Tensor(shape=[2], dtype=Bool, value=[ True False])"),
        (
            torch.tensor([1.5, 2.5]),
            "Tensor(shape=[2], dtype=Float32, value=[ 1.50000000e+00  2.50000000e+00])",
        ),
        (torch.empty(0, 3), "Tensor(shape=[0, 3], dtype=Float32, value=[])"),
        (torch.tensor(2.5), "Tensor(shape=[], dtype=Float32, value=2.5)"),
        (torch.tensor(7), "Tensor(shape=[], dtype=Int64, value=7)"),
    ],
)
def test_as_the_original_shows_it(tensor: torch.Tensor, text: str) -> None:
    assert tensor_text(tensor, 1000) == text


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float64, "Float64"),
        (torch.bfloat16, "BFloat16"),
        (torch.float8_e5m2, "Float8_e5m2"),
        (torch.uint8, "UInt8"),
        (torch.int8, "Int8"),
        (torch.bool, "Bool"),
        (torch.complex64, "Complex64"),
    ],
)
def test_every_dtype_has_a_name_and_values(dtype: torch.dtype, name: str) -> None:
    tensor = torch.ones(2, 2).to(dtype)
    assert shown_dtype(tensor) == name
    assert tensor_text(tensor, 1000).count("1") + tensor_text(tensor, 1000).count("True") >= 4


def test_the_limit_decides_what_is_left_out() -> None:
    tensor = torch.arange(10)
    assert "..." not in tensor_text(tensor, 10)
    assert tensor_text(tensor, 9).endswith("value=[0 1 2 ... 7 8 9])")


def test_what_has_no_plain_values_is_shown_as_torch_shows_it() -> None:
    text = tensor_text(torch.eye(2).to_sparse(), 1000)
    assert text.startswith("Tensor(shape=[2, 2], dtype=Float32, value=\ntensor(indices=")
