"""`opscope.context`, for scripts that set MindSpore's context: the modes, and `set_context`."""

from __future__ import annotations

from opscope.settings.context import set_context

GRAPH_MODE = 0
"""Accepted; regions run as graphs where the script uses torch.compile."""
PYNATIVE_MODE = 1
"""Accepted; PyTorch runs eagerly unless the script uses torch.compile."""

__all__ = ["GRAPH_MODE", "PYNATIVE_MODE", "set_context"]
