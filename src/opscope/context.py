"""`opscope.context`: MindSpore's modes, and `set_context` with what it does at once."""

from __future__ import annotations

from typing import Any

from opscope.mem_reuse import set_reuse
from opscope.settings import context as settings

GRAPH_MODE = 0
"""Accepted; regions run as graphs where the script uses torch.compile."""
PYNATIVE_MODE = 1
"""Accepted; PyTorch runs eagerly unless the script uses torch.compile."""

__all__ = ["GRAPH_MODE", "PYNATIVE_MODE", "set_context"]


def set_context(**kwargs: Any) -> None:
    """Set env_config_path, save_graphs, reserve_class_name_in_scope, enable_mem_reuse or mode.

    Other keys of MindSpore's set_context are accepted and said once to have no effect. With any
    problem nothing is set, and every problem is reported.
    """
    settings.set_context(**kwargs)
    reuse = settings.current_context().mem_reuse
    if reuse is not None:
        set_reuse(reuse)
