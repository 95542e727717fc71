"""Each test starts a new conversation and sees what was said."""

from __future__ import annotations

import pytest

from opscope.messages import forget_said


@pytest.fixture(autouse=True)
def _new_conversation() -> None:
    forget_said()
