"""The options about servers and about what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.errors import ConfigError
from opscope.settings.run import RunSettings, load_run_settings


def settings(tmp_path: Path, environ: dict[str, str] | None = None, **flags: object) -> RunSettings:
    return load_run_settings(flags, environ or {}, tmp_path)


@pytest.mark.parametrize(
    "given, expected",
    [
        ("127.0.0.1:50051", "127.0.0.1:50051"),
        ("host", "host:50051"),
        (":7000", "127.0.0.1:7000"),
        ("ws://host:7000/", "host:7000"),
        ("wss://host:7000", "wss://host:7000"),
        ("wss://host", "wss://host:50051"),
    ],
)
def test_a_server(given: str, expected: str, tmp_path: Path) -> None:
    assert settings(tmp_path, server=given).server == expected


@pytest.mark.parametrize("given", ["https://host:1", "host:70000", "host:0", " ", "file:///x"])
def test_what_is_no_server(given: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--server"):
        settings(tmp_path, server=given)


def test_the_variables_of_mindspore(tmp_path: Path) -> None:
    environ = {"ENABLE_MS_DEBUGGER": "1", "MS_DEBUGGER_HOST": "h", "MS_DEBUGGER_PORT": "7000"}
    found = settings(tmp_path, environ)
    assert found.server == "h:7000" and found.wait


def test_what_is_kept(tmp_path: Path) -> None:
    usual = settings(tmp_path)
    assert usual.keep == "named" and usual.keep_budget == 0
    found = settings(tmp_path, keep="all", keep_budget="2MiB")
    assert found.keep == "all" and found.keep_budget == 2 << 20
    with pytest.raises(ConfigError, match="--keep "):
        settings(tmp_path, keep="some")
    with pytest.raises(ConfigError, match="--keep-budget"):
        settings(tmp_path, keep_budget="much")
    assert RunSettings.from_json(found.to_json()) == found
