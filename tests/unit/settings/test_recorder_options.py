"""Whether the recorder is on, when it exports and where: all the ways to say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opscope.errors import ConfigError
from opscope.settings.context import set_context
from opscope.settings.recorder import RecorderSettings
from opscope.settings.run import RunSettings, load_run_settings

pytestmark = pytest.mark.usefixtures("fresh_context")


def load(
    folder: Path, flags: dict[str, object] | None = None, records: bool = True, **environ: str
) -> RunSettings:
    return load_run_settings(flags or {}, environ, folder, records=records)


def config(folder: Path, **rdr: object) -> str:
    file = folder / "mindspore_config.json"
    file.write_text(json.dumps({"rdr": rdr}))
    return str(file)


def problems(folder: Path, flags: dict[str, object] | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, flags, **environ)
    return [str(problem) for problem in caught.value.problems]


def test_it_is_on_where_it_is_the_default(tmp_path: Path) -> None:
    assert load(tmp_path).recorder == RecorderSettings(enable=True, mode=1, path="", hang=600)
    assert not load(tmp_path, records=False).records


@pytest.mark.parametrize("off", [{"no_record": True}, {}])
def test_it_can_be_switched_off(tmp_path: Path, off: dict[str, object]) -> None:
    environ = {} if off else {"MS_RDR_ENABLE": "0"}
    settings = load(tmp_path, off, **environ)
    assert not settings.records and settings.writes_run


def test_the_environment_switches_it_on(tmp_path: Path) -> None:
    environ = {"MS_RDR_ENABLE": "1", "MS_RDR_MODE": "2", "MS_RDR_PATH": "/x"}
    found = load(tmp_path, records=False, **environ).recorder
    assert found == RecorderSettings(True, 2, "/x")


def test_the_file_wins_over_the_environment(tmp_path: Path) -> None:
    file = config(tmp_path, enable=True, mode=1, path="/file")
    environ = {"MS_RDR_ENABLE": "0", "MS_RDR_MODE": "2", "OPSCOPE_RECORD_HANG": "5"}
    found = load(tmp_path, {"config": file}, **environ).recorder
    assert found == RecorderSettings(True, 1, "/file", 5)


def test_the_context_wins_over_the_environment(tmp_path: Path) -> None:
    set_context(env_config_path=config(tmp_path, enable=True, mode=2))
    found = load(tmp_path, records=False, MS_RDR_ENABLE="0", MS_RDR_PATH="/x").recorder
    assert found == RecorderSettings(True, 2, "/x")


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    file = config(tmp_path, enable=True)
    assert not load(tmp_path, {"config": file, "no_record": True}).records


def test_the_project_comes_last(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text('[rdr]\nenable = true\nmode = 2\npath = "/p"')
    assert load(tmp_path, records=False).recorder == RecorderSettings(True, 2, "/p")
    found = load(tmp_path, records=False, MS_RDR_MODE="1").recorder
    assert found == RecorderSettings(True, 1, "/p")


def test_a_project_names_every_bad_key(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text('[rdr]\nenable = 1\nmode = 3\npath = "a"\nfoo = 1')
    file = str(tmp_path / "opscope.toml")
    found = problems(tmp_path)
    assert [each.split(" ")[1] for each in found] == [
        "rdr.foo",
        "rdr.enable",
        "rdr.mode",
        "rdr.path",
    ] and all(each.startswith(file) for each in found)


@pytest.mark.parametrize("path", ["relative", "./x"])
def test_a_relative_path_is_an_error(tmp_path: Path, path: str) -> None:
    (line,) = problems(tmp_path, MS_RDR_PATH=path)
    assert "MS_RDR_PATH" in line and "must be an absolute path" in line
    (line,) = problems(tmp_path, {"config": config(tmp_path, enable=True, path=path)})
    assert "rdr.path" in line and "must be an absolute path" in line


def test_beside_a_dump_it_is_off_and_needs_a_path(tmp_path: Path, write_config: object) -> None:
    assert callable(write_config)
    dump = write_config()
    assert not load(tmp_path, {"dump": dump}).records
    (line,) = problems(tmp_path, {"dump": dump, "record": True})
    assert line == (
        "command line: --record: needs a path for the recorder beside a dump: "
        "rdr.path or MS_RDR_PATH"
    )
    settings = load(tmp_path, {"dump": dump, "record": True}, MS_RDR_PATH="/x")
    assert settings.records and not settings.writes_run and not settings.has_run_directory
    assert load(tmp_path, {"dump": dump, "write_run": True}).records


def test_only_the_recorder(tmp_path: Path) -> None:
    settings = load(tmp_path, {"no_stats": True})
    assert settings.records and settings.active and settings.has_run_directory
    assert not settings.writes_run and not settings.watches
    settings = load(tmp_path, {"no_stats": True}, MS_RDR_PATH="/x")
    assert not settings.has_run_directory
    assert not load(tmp_path, {"no_stats": True, "no_record": True}).active


def test_watchpoints_need_statistics(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, {"no_stats": True, "watch": "TO"})
    assert "--watch" in line and "contradicts --no-stats" in line
    assert load(tmp_path, {"watch": "none"}).writes_run
