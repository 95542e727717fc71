"""Tests of commands use the hand-made runs of the tests of writers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opscope.messages import forget_said

sys.path.append(str(Path(__file__).parent.parent / "rundir"))
sys.path.append(str(Path(__file__).parent.parent / "read"))


@pytest.fixture(autouse=True)
def _new_conversation() -> None:
    forget_said()
