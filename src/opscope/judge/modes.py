"""Operators that do in training what they do not in an evaluation."""

from __future__ import annotations

from opscope.events import Node

_DROPOUTS = frozenset(("native_dropout", "_fused_dropout", "bernoulli_", "feature_dropout"))
_RECALIBRATION = "swa_utils.py"


def is_dropout(node: Node) -> bool:
    """Return whether a node sets elements to zero at random."""
    return node.op_type in _DROPOUTS


def is_batch_norm(node: Node) -> bool:
    """Return whether a node is a batch norm, in whatever mode."""
    return "batch_norm" in node.op_type and "backward" not in node.op_type


def stands_still(node: Node) -> bool:
    """Return whether a batch norm leaves its running statistics as they are."""
    return node.arguments.get("momentum") in ("0", "0.0")


def trains_batch_norm(node: Node) -> bool:
    """Return whether a node is a batch norm by the statistics of the batch, not recalibration."""
    recalibrates = any(frame.file.endswith(_RECALIBRATION) for frame in node.stack.frames)
    in_train_mode = node.arguments.get("training") == "True"
    return is_batch_norm(node) and in_train_mode and not recalibrates
