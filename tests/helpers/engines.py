"""Which engine tells of operators in this test run."""

from __future__ import annotations

import pytest

from opscope.capture import hook

needs_observer = pytest.mark.skipif(
    hook.load() is None,
    reason="a dispatch mode sees less, see docs/concepts.md",
)
