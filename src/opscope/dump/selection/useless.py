"""Outputs that nothing reads for its value, such as the random state of attention."""

from __future__ import annotations

from functools import lru_cache

from opscope.dump.selection.schemas import returned_tensors

_USELESS = {"philox_seed", "philox_offset", "rng_state", "debug_attn_mask", "unused"}
"""Names that torch gives such outputs in the schemas of its operators."""
_OFTEN_ABSENT = ("cum_seq_q", "cum_seq_k")
"""Outputs that may be no tensor, in the order in which they are left out."""


@lru_cache(maxsize=4096)
def has_useless(op: str) -> bool:
    """Tell whether an operator has such outputs."""
    return any(name in _USELESS for name in returned_tensors(op))


@lru_cache(maxsize=4096)
def useless_slots(op: str, outputs: int) -> frozenset[int]:
    """The slots to leave out where an operator has returned so many tensors."""
    names = list(returned_tensors(op))
    for absent in _OFTEN_ABSENT:
        if len(names) > outputs and absent in names:
            names.remove(absent)
    return frozenset(slot for slot, name in enumerate(names[:outputs]) if name in _USELESS)
