from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_dump import MadeDump, NewDump, make_settings

from opscope.messages import forget_said


@pytest.fixture(autouse=True)
def _new_conversation() -> None:
    forget_said()


@pytest.fixture(params=[True, False], ids=["sync", "async"])
def enable(request: pytest.FixtureRequest) -> bool:
    """Both ways to write must give the same files."""
    return bool(request.param)


@pytest.fixture
def new_dump(tmp_path: Path) -> NewDump:
    """A dump whose config is right but for what the test changes in it."""

    def new(
        enable: bool = True,
        run_id: str = "run-a",
        options: dict[str, Any] | None = None,
        **common: Any,
    ) -> MadeDump:
        settings = make_settings(tmp_path / "dump", enable, **common)
        return MadeDump(settings, run_id, **(options or {}))

    return new
