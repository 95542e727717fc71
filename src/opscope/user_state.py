"""The folder of what belongs to this user: the token, and which servers run."""

from __future__ import annotations

import os
from pathlib import Path


def state_directory() -> Path:
    """The directory, which need not be there yet."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "opscope"
