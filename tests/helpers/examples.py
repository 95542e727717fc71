"""How many examples property tests try."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """So many in `make test-long`, a third of them in `make test`."""
    return count if os.environ.get("OPSCOPE_ALL_EXAMPLES") else max(10, count // 3)
