"""Tests of checks use the hand-made dumps of the readers' tests and the runs of the writers'."""

from __future__ import annotations

import sys
from pathlib import Path

_UNIT = Path(__file__).parent.parent
for folder in ("read", "rundir"):
    sys.path.append(str(_UNIT / folder))
