from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.errors import ConfigError, Problem
from opscope.settings.dump import load_dump_settings
from opscope.settings.dump_keys import COMMON, E2E, KEYS, STATISTICS
from opscope.settings.iterations import Iterations

WriteConfig = Callable[..., str]


def problems_of(file: str, environ: dict[str, str] | None = None) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load_dump_settings(file, environ or {})
    return caught.value.problems


def only_problem(file: str, environ: dict[str, str] | None = None) -> Problem:
    (problem,) = problems_of(file, environ)
    return problem


def test_defaults(write_config: WriteConfig, tmp_path: Path) -> None:
    file = write_config()
    settings = load_dump_settings(file, {})
    assert settings.file == file
    assert settings.path == tmp_path / "dump"
    assert settings.net_name == "Net"
    assert settings.dump_mode == 0
    assert settings.iterations == Iterations.parse("0")
    assert settings.initial_iteration == 0
    assert settings.saved_data == "tensor"
    assert settings.input_output == 0
    assert settings.kernels == ()
    assert settings.support_device is None
    assert settings.statistic_category == ("max", "min", "l2norm")
    assert settings.op_debug_mode == 0
    assert settings.overflow_number == 0
    assert settings.file_format == "npy"
    assert settings.enable is False
    assert settings.trans_flag is True
    assert settings.stat_calc_mode is None
    assert settings.device_stat_precision_mode == "high"
    assert settings.sample_mode == 0
    assert settings.sample_num == 100
    assert settings.save_kernel_args is False
    assert settings.text == Path(file).read_text()
    assert settings.notices == ()
    assert not (tmp_path / "dump").exists()


def test_every_key_given(write_config: WriteConfig, tmp_path: Path) -> None:
    common = {
        "op_debug_mode": 0,
        "dump_mode": 1,
        "path": f"{tmp_path}/a dump/with.dots/ünï",
        "net_name": "ResNet.50 (big)",
        "iteration": "0 | 5-8 | 100-120",
        "initial_iteration": 3,
        "saved_data": "full",
        "input_output": 2,
        "kernels": ["Default/Conv-op12", "conv", "name-regex(Default/.+)", "conv"],
        "support_device": [0, 3, 3],
        "statistic_category": [*STATISTICS, "max"],
        "overflow_number": 0,
        "file_format": "npy",
    }
    e2e = {
        "enable": True,
        "trans_flag": True,
        "stat_calc_mode": "host",
        "device_stat_precision_mode": "high",
        "sample_mode": 0,
        "save_kernel_args": False,
    }
    settings = load_dump_settings(write_config(common, e2e), {})
    assert settings.path == Path(str(common["path"]))
    assert settings.net_name == "ResNet.50 (big)"
    assert [pattern.kind for pattern in settings.kernels] == ["name", "type", "regex"]
    assert settings.support_device == (0, 3)
    assert settings.statistic_category == STATISTICS
    assert settings.initial_iteration == 3
    assert settings.stat_calc_mode == "host"
    assert settings.synchronous
    assert settings.notices == ()


def test_statistics_keep_the_order_of_the_user(write_config: WriteConfig) -> None:
    wanted = ["l2norm", "hash:sha1", "max", "l2norm"]
    file = write_config({"saved_data": "statistic", "statistic_category": wanted})
    assert load_dump_settings(file, {}).statistic_category == ("l2norm", "hash:sha1", "max")


@pytest.mark.parametrize(
    ("input_output", "inputs", "outputs"), [(0, True, True), (1, True, False), (2, False, True)]
)
def test_inputs_and_outputs(
    write_config: WriteConfig, input_output: int, inputs: bool, outputs: bool
) -> None:
    settings = load_dump_settings(write_config({"input_output": input_output}), {})
    assert (settings.wants_inputs, settings.wants_outputs) == (inputs, outputs)


@pytest.mark.parametrize(
    ("saved_data", "tensors", "statistics"),
    [("tensor", True, False), ("statistic", False, True), ("full", True, True)],
)
def test_saved_data(
    write_config: WriteConfig, saved_data: str, tensors: bool, statistics: bool
) -> None:
    settings = load_dump_settings(write_config({"saved_data": saved_data}), {})
    assert (settings.saves_tensors, settings.saves_statistics) == (tensors, statistics)


def test_asynchronous_unless_enabled(write_config: WriteConfig) -> None:
    assert not load_dump_settings(write_config(), {}).synchronous
    assert not load_dump_settings(write_config(e2e={"enable": False}), {}).synchronous
    assert load_dump_settings(write_config(e2e={"enable": True}), {}).synchronous


WRONG: dict[str, list[Any]] = {
    "dump_mode": [True, False, "0", 0.0, 3, -1, None, [0]],
    "path": [1, None, ["/x"], True],
    "net_name": [1, None, "", ".", "..", "a/b", "a\\b", "a\0b", "x" * 256, "graphs", "\ud800"],
    "iteration": [0, [0, 1], None, "3-1", "", "x", True],
    "initial_iteration": [-1, True, "0", 1.0, None, 2**63],
    "saved_data": ["tensors", "", 0, None, ["tensor"]],
    "input_output": [3, True, "1", None],
    "kernels": ["conv", None, {"a": 1}, 1],
    "support_device": ["0", 0, None, {}],
    "statistic_category": ["max", None, 1],
    "op_debug_mode": [5, -1, True, "0"],
    "overflow_number": [-1, True, "3", 1.5],
    "file_format": ["npz", "NPY", 1, None],
    "enable": [1, 0, "true", None],
    "trans_flag": [1, 0, "true", None],
    "stat_calc_mode": ["gpu", 1, None, True],
    "device_stat_precision_mode": ["mid", 1, None],
    "sample_mode": [2, True, "0"],
    "sample_num": [0, -1, True, "5", 1.0],
    "save_kernel_args": [1, 0, "yes", None],
}
SECTION_OF = {key.name: key.section for key in KEYS}


def test_every_key_is_tried_with_wrong_values() -> None:
    assert WRONG.keys() == SECTION_OF.keys()


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_wrong_value(write_config: WriteConfig, name: str, value: object) -> None:
    section = SECTION_OF[name]
    file = write_config(*(({name: value},) if section == COMMON else ({}, {name: value})))
    problem = only_problem(file)
    assert problem.file == file
    assert problem.key == f"{section}.{name}"
    assert problem.value == value
    assert isinstance(problem.value, bool) is isinstance(value, bool)
    assert "must" in problem.message or name in ("iteration", "net_name")
    assert "not supported yet" not in problem.message


@pytest.mark.parametrize(
    ("name", "value", "bad"),
    [
        ("kernels", ["conv", 1, "", "name-regex(()"], {1: 1, 2: "", 3: "name-regex(()"}),
        ("support_device", [0, -1, True, "1"], {1: -1, 2: True, 3: "1"}),
        ("statistic_category", ["max", "Max", 3], {1: "Max", 2: 3}),
    ],
)
def test_each_wrong_element_is_named(
    write_config: WriteConfig, name: str, value: list[object], bad: dict[int, object]
) -> None:
    problems = problems_of(write_config({name: value}))
    found = {problem.key: problem.value for problem in problems}
    assert found == {f"{COMMON}.{name}[{index}]": item for index, item in bad.items()}


def test_a_bad_expression_is_reported_with_its_position(write_config: WriteConfig) -> None:
    message = only_problem(write_config({"kernels": ["name-regex(Conv(2d)"]})).message
    assert "bad regular expression" in message
    assert "at position 4" in message


VALUES: dict[str, list[Any]] = {
    "dump_mode": [0, 1, 2],
    "saved_data": ["tensor", "statistic", "full"],
    "input_output": [0, 1, 2],
    "op_debug_mode": [0, 1, 2, 3, 4],
    "overflow_number": [0, 3],
    "file_format": ["npy", "bin"],
    "enable": [True, False],
    "trans_flag": [True, False],
    "stat_calc_mode": ["host", "device"],
    "device_stat_precision_mode": ["high", "low"],
    "sample_mode": [0, 1],
    "sample_num": [1, 100, 5000],
    "save_kernel_args": [True, False],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in VALUES.items() for value in values]
)
def test_every_value_of_the_guides_is_accepted(
    write_config: WriteConfig, name: str, value: object
) -> None:
    common = {"kernels": ["conv"]} if (name, value) == ("dump_mode", 1) else {}
    section = SECTION_OF[name]
    parts = ({name: value} | common, {}) if section == COMMON else (common, {name: value})
    settings = load_dump_settings(write_config(*parts), {})
    taken = 3 if name == "op_debug_mode" and value in (1, 2) else value
    assert getattr(settings, name) == taken


def test_all_problems_at_once(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(
        '{"common_dump_settings": {"iterations": "3", "iteration": "3-1", "dump_mode": true,'
        ' "path": "here", "net_name": "a/b", "enable": true, "op_debug_mode": 5,'
        ' "input_output": 0, "input_output": 0},'
        ' "e2e_dump_settings": {"sample_mode": 2, "trans_flag": 0}, "common": {}}'
    )
    problems = problems_of(str(file))
    assert {problem.key for problem in problems} == {
        "common_dump_settings.input_output",
        "common",
        "common_dump_settings.iterations",
        "common_dump_settings.iteration",
        "common_dump_settings.dump_mode",
        "common_dump_settings.path",
        "common_dump_settings.net_name",
        "common_dump_settings.enable",
        "common_dump_settings.op_debug_mode",
        "e2e_dump_settings.sample_mode",
        "e2e_dump_settings.trans_flag",
    }
    text = str(ConfigError(problems))
    assert len(text.splitlines()) == len(problems)
    assert all(line.startswith(f"{file}: ") for line in text.splitlines())


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("iterations", "iteration"),
        ("kernel", "kernels"),
        ("save_data", "saved_data"),
        ("Net_Name", "net_name"),
        ("trans_flg", "trans_flag"),
    ],
)
def test_did_you_mean(write_config: WriteConfig, key: str, meant: str) -> None:
    problem = only_problem(write_config({key: 1}))
    assert problem.key == f"{COMMON}.{key}"
    assert problem.message == f'unknown key (did you mean "{meant}"?)'


def test_an_unknown_key_without_a_likeness(write_config: WriteConfig) -> None:
    assert only_problem(write_config({"zzz": 1})).message == "unknown key"


def test_a_known_key_in_the_wrong_section(write_config: WriteConfig) -> None:
    assert E2E in only_problem(write_config({"enable": True})).message
    assert COMMON in only_problem(write_config({}, {"kernels": []})).message


def write_raw(tmp_path: Path, data: object) -> str:
    file = tmp_path / "raw.json"
    file.write_text(json.dumps(data))
    return str(file)


def test_sections(tmp_path: Path) -> None:
    common = {"path": str(tmp_path), "iteration": "all"}
    missing = only_problem(write_raw(tmp_path, {}), {"MS_DIAGNOSTIC_DATA_PATH": str(tmp_path)})
    assert missing.key == COMMON
    assert "required" in missing.message
    wrong = only_problem(write_raw(tmp_path, {COMMON: common, E2E: [1]}))
    assert (wrong.key, wrong.message) == (E2E, "must be an object, { ... }, not a list")
    typo = only_problem(write_raw(tmp_path, {COMMON: common, "e2e_dump_setting": {}}))
    assert 'did you mean "e2e_dump_settings"?' in typo.message
    other = only_problem(write_raw(tmp_path, {COMMON: common, "async_dump_settings": {}}))
    assert "did you mean" not in other.message
    assert f'allowed are "{COMMON}" or "{E2E}"' in other.message
    misplaced = only_problem(write_raw(tmp_path, {COMMON: common, "enable": True}))
    assert f"belongs in {E2E}" in misplaced.message


def test_iteration_is_required(write_config: WriteConfig) -> None:
    problem = only_problem(write_config({"iteration": ...}))
    assert problem.key == f"{COMMON}.iteration"
    assert "required" in problem.message


@pytest.mark.parametrize("common", [{"kernels": []}, {}])
def test_dump_mode_1_needs_kernels(write_config: WriteConfig, common: dict[str, Any]) -> None:
    problem = only_problem(write_config({"dump_mode": 1} | common))
    assert problem.key == f"{COMMON}.kernels"
    assert "at least one operator" in problem.message


def test_what_selects_nothing_is_a_problem(write_config: WriteConfig) -> None:
    problem = only_problem(write_config({"support_device": []}))
    assert problem.key == f"{COMMON}.support_device"
    problem = only_problem(write_config({"iteration": "0-9", "initial_iteration": 10}))
    assert problem.key == f"{COMMON}.iteration"
    assert "initial_iteration = 10" in problem.message
    load_dump_settings(write_config({"iteration": "0-10", "initial_iteration": 10}), {})
    load_dump_settings(write_config({"iteration": "all", "initial_iteration": 10}), {})


@pytest.mark.parametrize(
    ("common", "e2e", "words"),
    [
        ({"kernels": ["conv"]}, {}, "kernels has no effect with dump_mode 0"),
        ({"statistic_category": ["max"]}, {}, 'no effect with saved_data "tensor"'),
        ({"overflow_number": 3}, {}, "overflow_number has no effect unless op_debug_mode is 3"),
        ({}, {"sample_num": 100}, "sample_num has no effect with sample_mode 0"),
        (
            {},
            {"stat_calc_mode": "host", "device_stat_precision_mode": "low"},
            'precision_mode has no effect with stat_calc_mode "host"',
        ),
    ],
)
def test_notices(
    write_config: WriteConfig, common: dict[str, Any], e2e: dict[str, Any], words: str
) -> None:
    file = write_config(common, e2e)
    (notice,) = load_dump_settings(file, {}).notices
    assert words in notice
    assert notice.startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("common", "e2e"),
    [
        ({"kernels": []}, {}),
        ({"kernels": ["conv"], "dump_mode": 1}, {}),
        ({"statistic_category": ["max"], "saved_data": "statistic"}, {}),
        ({"overflow_number": 0}, {}),
        ({}, {"stat_calc_mode": "host", "device_stat_precision_mode": "high"}),
    ],
)
def test_no_notice_without_a_reason(
    write_config: WriteConfig, common: dict[str, Any], e2e: dict[str, Any]
) -> None:
    assert load_dump_settings(write_config(common, e2e), {}).notices == ()


def test_path_from_the_environment(write_config: WriteConfig, tmp_path: Path) -> None:
    environ = {"MS_DIAGNOSTIC_DATA_PATH": str(tmp_path / "diag")}
    for absent in (..., ""):
        settings = load_dump_settings(write_config({"path": absent}), environ)
        assert settings.path == tmp_path / "diag" / "debug_dump"
    assert load_dump_settings(write_config(), environ).path == tmp_path / "dump"


@pytest.mark.parametrize("absent", [..., ""])
def test_no_path_at_all(write_config: WriteConfig, absent: object) -> None:
    problem = only_problem(write_config({"path": absent}), {"MS_DIAGNOSTIC_DATA_PATH": ""})
    assert problem.key == f"{COMMON}.path"
    assert "MS_DIAGNOSTIC_DATA_PATH" in problem.message


def test_the_variable_must_be_absolute_when_it_is_used(write_config: WriteConfig) -> None:
    environ = {"MS_DIAGNOSTIC_DATA_PATH": "somewhere"}
    problem = only_problem(write_config({"path": ""}), environ)
    assert (problem.file, problem.key) == ("environment", "MS_DIAGNOSTIC_DATA_PATH")
    assert problem.value == "somewhere"
    assert "absolute" in problem.message
    load_dump_settings(write_config(), environ)


@pytest.mark.parametrize("path", ["relative", "./x", "~/x", " "])
def test_path_must_be_absolute(write_config: WriteConfig, path: str) -> None:
    problem = only_problem(write_config({"path": path}))
    assert problem.key == f"{COMMON}.path"
    assert "absolute" in problem.message


def test_path_that_cannot_be_a_directory(write_config: WriteConfig, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (file, file / "below" / "it", tmp_path / "dangling", tmp_path / "dangling/x"):
        assert "is not a directory" in only_problem(write_config({"path": str(path)})).message
    assert "255" in only_problem(write_config({"path": f"{tmp_path}/{'x' * 256}/y"})).message
    assert "NUL" in only_problem(write_config({"path": f"{tmp_path}/a\0b"})).message


def test_path_through_a_link_to_a_directory(write_config: WriteConfig, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path = tmp_path / "link" / "dump"
    assert load_dump_settings(write_config({"path": str(path)}), {}).path == path


@pytest.mark.parametrize("depth", ["", "/below/it"])
def test_a_path_where_nobody_can_write(write_config: WriteConfig, depth: str) -> None:
    """Root has every permission there, so only trying tells."""
    problem = only_problem(write_config({"path": f"/proc/opscope{depth}"}))
    assert problem.message == 'cannot be written to: No such file or directory in "/proc"'


def test_trying_a_path_leaves_nothing_behind(write_config: WriteConfig, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    load_dump_settings(write_config({"path": str(tmp_path / "empty/new/dump")}), {})
    assert list((tmp_path / "empty").iterdir()) == []


def test_exceptions_need_no_iteration(write_config: WriteConfig) -> None:
    file = Path(write_config({"op_debug_mode": 4}))
    config = json.loads(file.read_text())
    del config[COMMON]["iteration"]
    file.write_text(json.dumps(config))
    assert load_dump_settings(str(file), {}).iterations.all


def test_a_file_that_cannot_be_read_is_the_only_problem(tmp_path: Path) -> None:
    problem = only_problem(str(tmp_path / "none.json"))
    assert str(problem) == f"{tmp_path}/none.json: does not exist"
