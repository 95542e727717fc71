from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opscope import context
from opscope.errors import ConfigError, OpscopeError
from opscope.settings.context import (
    CONTEXT_KEYS,
    Context,
    current_context,
    on_context,
    set_context,
)
from opscope.settings.context_keys import WITHOUT_EFFECT

pytestmark = pytest.mark.usefixtures("fresh_context")


def write(tmp_path: Path, data: object) -> str:
    file = tmp_path / "mindspore_config.json"
    file.write_text(json.dumps(data))
    return str(file)


def test_defaults() -> None:
    assert current_context() == Context()
    assert current_context().reserve_class_name_in_scope is True


def test_keys_add_up_over_calls() -> None:
    set_context(reserve_class_name_in_scope=False)
    set_context(save_graphs=3)
    assert current_context() == Context(save_graphs=3, reserve_class_name_in_scope=False)


@pytest.mark.parametrize(("value", "level"), [(0, 0), (1, 1), (3, 3), (True, 2), (False, 0)])
def test_save_graphs(value: int, level: int) -> None:
    set_context(save_graphs=value)
    assert current_context().save_graphs == level


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("save_graphs", 4),
        ("save_graphs", -1),
        ("save_graphs", "2"),
        ("save_graphs", None),
        ("reserve_class_name_in_scope", 0),
        ("reserve_class_name_in_scope", "False"),
        ("env_config_path", 3),
        ("env_config_path", None),
        ("enable_mem_reuse", "no"),
        ("enable_mem_reuse", 1),
        ("mode", "graph"),
    ],
)
def test_wrong_values(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        set_context(**{key: value})
    (problem,) = caught.value.problems
    assert (problem.file, problem.key, problem.value) == ("set_context", key, value)
    assert "must be" in problem.message


def test_recorder_config(tmp_path: Path) -> None:
    rdr = {"enable": True, "mode": 2, "path": str(tmp_path / "rdr")}
    file = write(tmp_path, {"rdr": rdr, "sys": {"mem_reuse": False}})
    set_context(env_config_path=Path(file))
    found = current_context()
    assert found.env_config_path == file
    assert found.recorder == rdr
    assert found.mem_reuse is False


def test_parts_of_the_config_may_be_absent(tmp_path: Path) -> None:
    set_context(env_config_path=write(tmp_path, {"rdr": {"enable": True}}))
    assert current_context().recorder == {"enable": True}
    assert current_context().mem_reuse is None
    set_context(env_config_path=write(tmp_path, {}))
    assert current_context().recorder == {}


def test_all_problems_at_once_and_nothing_is_set(tmp_path: Path) -> None:
    rdr = {"enable": 1, "mode": 3, "path": "relative", "paths": ""}
    file = write(tmp_path, {"rdr": rdr, "sys": {"mem_reuse": "no"}, "dump": {}})
    with pytest.raises(ConfigError) as caught:
        set_context(
            env_config_path=file, save_graphs=9, reserve_class_name_in_scope=False, save_graf=1
        )
    assert {(problem.file, problem.key) for problem in caught.value.problems} == {
        ("set_context", "save_graphs"),
        ("set_context", "save_graf"),
        (file, "dump"),
        (file, "rdr.enable"),
        (file, "rdr.mode"),
        (file, "rdr.path"),
        (file, "rdr.paths"),
        (file, "sys.mem_reuse"),
    }
    assert current_context() == Context()


def test_a_missing_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: does not exist"):
        set_context(env_config_path=str(tmp_path / "none.json"))


def test_other_keys_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments: dict[str, Any] = {"device_id": 0, "device_target": "Ascend", "ascend_config": {}}
    set_context(**arguments)
    set_context(**arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "opscope: set_context: device_id has no effect in opscope",
        "opscope: set_context: device_target has no effect in opscope",
        "opscope: set_context: ascend_config has no effect in opscope",
    ]
    assert current_context() == Context()


def test_a_file_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_context(env_config_path=write(tmp_path, {"sys": {"mem_reuse": True}}))
    set_context(env_config_path=write(tmp_path, {"rdr": {"enable": True}}), save_graphs=2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mode", [context.GRAPH_MODE, context.PYNATIVE_MODE])
def test_modes_are_accepted_and_explained_once(
    mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    context.set_context(mode=mode)
    context.set_context(mode=mode)
    (line,) = capsys.readouterr().err.splitlines()
    assert "torch.compile; mode does not change that" in line
    assert current_context() == Context()


def test_a_mode_there_is_not() -> None:
    with pytest.raises(ConfigError, match="mode = 2: must be 0 or 1"):
        set_context(mode=2)


def test_what_is_said_wins_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, {"sys": {"mem_reuse": False}})
    set_context(env_config_path=file, enable_mem_reuse=True)
    assert current_context().mem_reuse is True
    set_context(env_config_path=file)
    assert current_context().mem_reuse is False
    set_context(env_config_path=write(tmp_path, {}))
    assert current_context().mem_reuse is False


def test_a_listener_hears_of_what_was_set() -> None:
    heard: list[bool] = []
    on_context(lambda: heard.append(current_context().reserve_class_name_in_scope))
    try:
        set_context(reserve_class_name_in_scope=False)
        with pytest.raises(ConfigError):
            set_context(save_graphs=9)
    finally:
        on_context(lambda: None)
    assert heard == [False]


@pytest.mark.parametrize(
    ("key", "meant"),
    [("save_graph", "save_graphs"), ("device_targt", "device_target"), ("Mode", "mode")],
)
def test_unknown_key(key: str, meant: str) -> None:
    with pytest.raises(OpscopeError, match=f'unknown key .did you mean "{meant}"'):
        set_context(**{key: 1})


def test_no_key_is_in_both_lists() -> None:
    assert not WITHOUT_EFFECT & CONTEXT_KEYS.keys()
