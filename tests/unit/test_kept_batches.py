"""Which batch a hit saves: that of the pass under way, and no other is kept alive."""

from __future__ import annotations

import gc
import weakref

import torch

from opscope.capture.kept_state import KeptState
from opscope.capture.parameters import TensorNames
from opscope.events import Outside


def kept_state() -> KeptState:
    kept = KeptState(TensorNames(id), list)
    kept.begin_step(0)
    return kept


def come(kept: KeptState, name: str, value: float) -> torch.Tensor:
    tensor = torch.full((2,), value)
    kept.add_batch(tensor, Outside("batch", name))
    return tensor


def batch(kept: KeptState) -> dict[str, float]:
    return {name: tensor[0].item() for name, tensor in kept.snapshot().batch.items()}


def test_an_evaluation_keeps_one_batch() -> None:
    kept = kept_state()
    seen = []
    for number in range(50):
        if number:
            kept.begin_pass()
        seen.append(weakref.ref(come(kept, "input0", number)))
        kept.network_called()
    assert batch(kept) == {"input0": 49.0}
    gc.collect()
    assert [reference() is not None for reference in seen] == [False] * 49 + [True]


def test_what_a_loader_gave_before_the_call_is_part_of_the_pass() -> None:
    kept = kept_state()
    for number in range(3):
        come(kept, "images", number)
        come(kept, "labels", number + 10)
        if number:
            kept.begin_pass()
        kept.network_called()
    assert batch(kept) == {"images": 2.0, "labels": 12.0}


def test_two_networks_of_one_pass_share_it() -> None:
    kept = kept_state()
    come(kept, "image", 1)
    kept.network_called()
    come(kept, "text", 2)
    kept.network_called()
    assert batch(kept) == {"image": 1.0, "text": 2.0}


def test_what_looks_wrong_is_held() -> None:
    kept = kept_state()
    come(kept, "input0", 1)
    kept.network_called()
    kept.hold()
    kept.begin_pass()
    come(kept, "input0", 2)
    assert batch(kept) == {"input0": 1.0}
    kept.begin_step(1)
    assert batch(kept) == {}
