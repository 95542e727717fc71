"""Sorts operators by what they do with NaN and Inf: hand on, write on purpose, mask."""

from __future__ import annotations

from opscope.events import Node
from opscope.judge.selection import base_type

WRITERS = frozenset(
    (
        *("constant_pad_nd", "fill", "full", "full_like", "index_fill", "masked_fill"),
        *("new_full", "scalar_tensor", "scatter", "where", "masked_scatter"),
    )
)
"""Operators that write a number they are given."""
PIECEWISE = frozenset(
    (
        *("index_put", "_index_put_impl", "index_copy", "index_fill", "index_add", "masked_fill"),
        *("masked_scatter", "scatter", "scatter_add", "scatter_reduce", "put", "copy", "fill"),
        *("slice_scatter", "select_scatter", "_index_put_impl_", "resize"),
    )
)
"""Operators that may write to a part of a tensor, and leave the rest as it was."""
OVERWRITING = frozenset(
    (
        *("bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_"),
        *("normal_", "random_", "uniform_", "zero_"),
    )
)
"""Operators that write to all of their first input and read nothing of it."""
VIEWS = frozenset(
    (
        *("alias", "as_strided", "detach", "expand", "permute", "select", "slice", "split"),
        *("squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "_unsafe_view"),
        *("chunk", "split_with_sizes", "diagonal", "narrow", "view_as_real", "_reshape_alias"),
    )
)
ARRIVALS = frozenset(("lift", "lift_fresh", "lift_fresh_copy"))
"""The operators by which torch takes in Python's or NumPy's numbers."""
STORAGE = "set"
"""The operator that gives a tensor memory filled without operators, as `torch.load` does."""
COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
"""The namespaces of operators by which ranks exchange values."""
_LOADER = "torch/utils/data"


def is_transparent(node: Node) -> bool:
    """Return whether a node only hands on what it reads."""
    op = base_type(node)
    return op in VIEWS or op in ARRIVALS


def is_overwritten(node: Node, slot: int) -> bool:
    """Return whether a node writes to all of an input without reading it."""
    return slot == 0 and node.op_type in OVERWRITING


def is_collective(node: Node) -> bool:
    """Return whether the outputs of a node come from other ranks."""
    return node.op.split(".")[0] in COLLECTIVES


def is_in_loader(node: Node) -> bool:
    """Return whether a node runs in what loads data."""
    return any(_LOADER in frame.file for frame in node.stack.frames)
