from __future__ import annotations

import pytest

from opscope.dump.selection.useless import has_useless, useless_slots

FLASH = "aten._scaled_dot_product_flash_attention.default"


@pytest.mark.parametrize(
    ("op", "outputs", "slots"),
    [
        # What torch returns on a GPU: the sequence lengths are no tensors there.
        (FLASH, 5, {2, 3, 4}),
        (FLASH, 7, {4, 5, 6}),
        ("aten._scaled_dot_product_cudnn_attention.default", 5, {2, 3, 4}),
        ("aten._scaled_dot_product_efficient_attention.default", 4, {2, 3}),
        ("aten._scaled_dot_product_flash_attention_for_cpu.default", 2, set()),
        ("aten.native_layer_norm.default", 3, set()),
        ("aten.native_dropout.default", 2, set()),
        ("nothing.of_this.name", 3, set()),
    ],
)
def test_slots(op: str, outputs: int, slots: set[int]) -> None:
    assert useless_slots(op, outputs) == slots
    assert has_useless(op) is bool(slots)
