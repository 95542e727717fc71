"""Arrays as .npy and safetensors files, read by NumPy and by the safetensors package."""

from __future__ import annotations

import io

import numpy as np
import pytest
from safetensors.numpy import load

from opscope.arrays import taken
from opscope.arrays.files import npy_parts, safetensors_parts
from opscope.errors import OpscopeError

ARRAYS = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    np.array(3.5),
    np.array([], np.int64),
    np.array([[True, False]]),
    np.arange(6, dtype=">i4").reshape(2, 3),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_files_hold_the_array(array: np.ndarray) -> None:
    back = np.load(io.BytesIO(b"".join(npy_parts(array))), allow_pickle=False)
    assert back.shape == array.shape and back.tolist() == array.tolist()
    saved = load(b"".join(safetensors_parts(array)))["value"]
    assert saved.shape == array.shape and saved.tolist() == array.tolist()


def test_files_hold_a_slice() -> None:
    array = ARRAYS[0]
    back = np.load(io.BytesIO(b"".join(npy_parts(taken(array, "1, ::2")))))
    assert back.tolist() == array[1, ::2].tolist()


def test_complex_numbers_are_kept_where_the_format_has_them() -> None:
    array = np.array([1 + 2j])
    assert np.load(io.BytesIO(b"".join(npy_parts(array)))).tolist() == array.tolist()
    with pytest.raises(OpscopeError, match=r"take the \.npy"):
        safetensors_parts(array)
