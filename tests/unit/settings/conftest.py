from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opscope.messages import forget_said
from opscope.settings.context import on_context, reset_context

WriteConfig = Callable[..., str]


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    """Write a dump config that is right but for what the caller changes in it."""

    def write(common: dict[str, Any] | None = None, e2e: dict[str, Any] | None = None) -> str:
        base = {"path": str(tmp_path / "dump"), "iteration": "0"}
        merged = {key: value for key, value in (base | (common or {})).items() if value is not ...}
        data: dict[str, Any] = {"common_dump_settings": merged}
        if e2e is not None:
            data["e2e_dump_settings"] = e2e
        file = tmp_path / "dump.json"
        file.write_text(json.dumps(data))
        return str(file)

    return write


@pytest.fixture
def fresh_context() -> Iterator[None]:
    forget_said()
    reset_context()
    on_context(lambda: None)  # or a recorder would start in this process
    yield
    reset_context()
