from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opscope.dump.format.form import FileForm, layout_of, sample_on_device, spots
from opscope.dump.format.values import read


@given(st.integers(1, 10**12), st.integers(1, 500))
def test_a_sample_is_evenly_spaced(count: int, samples: int) -> None:
    if samples >= count:
        return
    at = spots(count, samples)
    assert len(at) == samples
    assert at[0] == 0
    if samples > 1:
        assert at[-1] == count - 1
        gaps = np.diff(at)
        assert gaps.min() >= 1
        assert gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize(
    ("tensor", "layout"),
    [
        (torch.zeros(2, 3, 4, 5), "DefaultFormat"),
        (torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), "NHWC"),
        (torch.zeros(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d), "NDHWC"),
        (torch.zeros(2, 1, 4, 5).to(memory_format=torch.channels_last), "DefaultFormat"),
        (torch.zeros(4, 5).t(), "DefaultFormat"),
        (torch.zeros(2, 3, 4, 5).transpose(0, 1), "DefaultFormat"),
        (torch.zeros(()), "DefaultFormat"),
    ],
)
def test_layouts(tensor: torch.Tensor, layout: str) -> None:
    assert layout_of(tensor) == layout
    assert FileForm(keeps_layout=True).kind(tensor).format == layout
    assert FileForm().kind(tensor).format == "DefaultFormat"


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("measures", [False, True])
def test_reading(keeps: bool, measures: bool) -> None:
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).bfloat16()
    form = FileForm(keeps_layout=keeps, samples=9)
    reading = read(tensor, form, measures, for_digest=True)
    assert not isinstance(reading, str)
    whole = tensor.float().numpy()
    whole = whole.transpose(0, 2, 3, 1) if keeps else whole
    assert reading.kind.shape == (2, 3, 4, 5)
    assert reading.array.size == (120 if measures else 9)
    np.testing.assert_array_equal(form.sample(reading.array), whole.reshape(-1)[spots(120, 9)])
    if measures:
        assert reading.raw is not None
        assert reading.raw.tobytes() == tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("layout", ["DefaultFormat", "NHWC"])
def test_a_sample_on_a_device_is_that_of_the_array(layout: str) -> None:
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    array = tensor.numpy() if layout == "DefaultFormat" else tensor.numpy().transpose(0, 2, 3, 1)
    sample = sample_on_device(tensor, layout, 11)
    np.testing.assert_array_equal(sample.numpy(), FileForm(samples=11).sample(array))
