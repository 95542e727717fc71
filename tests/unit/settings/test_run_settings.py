from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.errors import ConfigError, Problem
from opscope.settings.iterations import Iterations
from opscope.settings.options import OPTIONS
from opscope.settings.run import RunSettings, load_run_settings

WriteConfig = Callable[..., str]


def problems_of(
    flags: dict[str, object], environ: dict[str, str], cwd: Path, **extra: str
) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load_run_settings(flags, environ, cwd, **extra)
    return caught.value.problems


def test_defaults(tmp_path: Path) -> None:
    settings = load_run_settings({}, {}, tmp_path)
    assert settings == RunSettings()
    assert settings.dump is None
    assert settings.watch == "recommended"
    assert settings.stats and not settings.records
    assert settings.page
    assert settings.every == 1
    assert settings.steps.all
    assert settings.scope is None
    assert settings.run_dir is None
    assert settings.budget_bytes == 2 * 1024**3
    assert settings.keep_runs == 0
    assert settings.include == frozenset()
    assert settings.writes_run
    assert settings.notices == ()


def test_all_flags(tmp_path: Path) -> None:
    flags: dict[str, object] = {
        "dump": None,
        "watch": "none",
        "no_record": True,
        "no_page": True,
        "every": "5",
        "steps": "100-200",
        "scope": "*/attn*",
        "run_dir": "runs/a",
        "budget": "500MB",
        "keep_runs": 3,
        "include": ["setup", "eval"],
        "script": "train.py",
        "verb": "run",
    }
    settings = load_run_settings(flags, {}, tmp_path)
    assert settings.watch == "none"
    assert not settings.records
    assert not settings.page
    assert settings.every == 5
    assert settings.steps == Iterations.parse("100-200")
    assert settings.scope == "*/attn*"
    assert settings.run_dir == tmp_path / "runs" / "a"
    assert settings.budget_bytes == 500_000_000
    assert settings.keep_runs == 3
    assert settings.include == {"setup", "eval"}


def test_flags_that_contradict_each_other(tmp_path: Path) -> None:
    (problem,) = problems_of({"record": True, "no_record": True}, {}, tmp_path)
    assert str(problem) == "command line: --no-record: contradicts --record; give one of them"


@pytest.mark.parametrize("include", ["setup, eval", ["setup", "eval"], ("eval", "setup")])
def test_forms_of_include(tmp_path: Path, include: object) -> None:
    assert load_run_settings({"include": include}, {}, tmp_path).include == {"setup", "eval"}


def test_flags_that_were_not_used(tmp_path: Path) -> None:
    flags: dict[str, object] = dict.fromkeys(OPTIONS)
    flags |= {"record": False, "no_record": False, "no_page": None, "include": []}
    assert load_run_settings(flags, {}, tmp_path) == RunSettings()
    (tmp_path / "opscope.toml").write_text('include = ["eval"]\npage = false')
    assert load_run_settings(flags, {}, tmp_path) == RunSettings(
        include=frozenset({"eval"}), page=False
    )


WRONG: dict[str, list[Any]] = {
    "dump": ["", " "],
    "watch": ["", "  "],
    "every": ["0", "x", "-1", 0, "1.5", True],
    "steps": ["2-", "", "x"],
    "scope": [""],
    "run_dir": ["", " "],
    "budget": ["2G", "0", "-1"],
    "keep_runs": ["-1", "all", -1],
    "include": [["tests"], "setup,training"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_wrong_flag(tmp_path: Path, name: str, value: object) -> None:
    (problem,) = problems_of({name: value}, {}, tmp_path)
    assert problem.file == "command line"
    assert problem.key.startswith(f"--{name.replace('_', '-')}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dump", "1"),
        ("watch", "true"),
        ("record", '"yes"'),
        ("record", "1"),
        ("page", "0"),
        ("every", "1.0"),
        ("every", "true"),
        ("steps", "5"),
        ("scope", "[]"),
        ("run_dir", "7"),
        ("budget", "1.5"),
        ("budget", "true"),
        ("keep_runs", "-1"),
        ("include", "1"),
        ("include", "1979-05-27"),
    ],
)
def test_wrong_type_in_a_project_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.opscope]\n{name} = {text}")
    (problem,) = problems_of({}, {}, tmp_path)
    assert problem.file == str(tmp_path / "pyproject.toml")
    assert problem.key == f"tool.opscope.{name}"


def test_project_file(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text(
        'watch = "none"\nrecord = false\npage = false\nevery = 4\nsteps = "0-9"\nscope = "*"\n'
        'run_dir = "runs"\nbudget = 1048576\nkeep_runs = 2\ninclude = ["eval"]'
    )
    below = tmp_path / "below"
    below.mkdir()
    settings = load_run_settings({}, {}, below)
    assert (settings.watch, settings.records, settings.page) == ("none", False, False)
    assert (settings.every, settings.scope, settings.keep_runs) == (4, "*", 2)
    assert settings.steps == Iterations.parse("0-9")
    assert settings.run_dir == tmp_path / "runs"
    assert settings.budget_bytes == 1048576
    assert settings.include == {"eval"}


def test_unknown_key_in_a_project_file(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text("evry = 2")
    (problem,) = problems_of({}, {}, tmp_path)
    assert problem.key == "evry"
    assert problem.message == 'unknown key (did you mean "every"?)'


def test_precedence_of_run_dir(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text('run_dir = "toml"')
    environ = {"OPSCOPE_RUN_DIR": "environment"}
    flags = {"run_dir": str(tmp_path / "flag")}
    assert load_run_settings(flags, environ, tmp_path).run_dir == tmp_path / "flag"
    assert load_run_settings({}, environ, tmp_path).run_dir == tmp_path / "environment"
    assert load_run_settings({}, {}, tmp_path).run_dir == tmp_path / "toml"


def test_precedence_of_dump(tmp_path: Path) -> None:
    names = ("flag", "ours", "theirs", "toml")
    for name in names:
        text = f'{{"common_dump_settings": {{"path": "{tmp_path}/{name}", "iteration": "0"}}}}'
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "opscope.toml").write_text('dump = "toml.json"')
    flags: dict[str, object] = {"dump": "flag.json"}
    environ = {"OPSCOPE_DUMP_CONFIG": "ours.json", "MINDSPORE_DUMP_CONFIG": "theirs.json"}

    def dumped_to() -> str:
        dump = load_run_settings(flags, environ, tmp_path).dump
        assert dump is not None
        return dump.path.name

    assert dumped_to() == "flag"
    flags.clear()
    assert dumped_to() == "ours"
    del environ["OPSCOPE_DUMP_CONFIG"]
    assert dumped_to() == "theirs"
    environ.clear()
    assert dumped_to() == "toml"


def test_project_paths_are_relative_to_the_project_file(tmp_path: Path) -> None:
    text = f'{{"common_dump_settings": {{"path": "{tmp_path}/d", "iteration": "0"}}}}'
    (tmp_path / "dump.json").write_text(text)
    (tmp_path / "opscope.toml").write_text('dump = "dump.json"')
    (tmp_path / "below").mkdir()
    assert load_run_settings({}, {}, tmp_path / "below").dump is not None
    (problem,) = problems_of({"dump": "dump.json"}, {}, tmp_path / "below")
    assert problem.message == "does not exist (named by --dump)"


def test_all_problems_of_all_sources_at_once(tmp_path: Path, write_config: WriteConfig) -> None:
    (tmp_path / "opscope.toml").write_text("evry = 1\nkeep_runs = -1\nsteps = 'x'")
    file = write_config({"iteration": "3-1", "dump_mode": 7})
    environ = {"MINDSPORE_DUMP_CONFIG": file, "MS_RDR_MODE": "9", "OPSCOPE_RUN_DIR": f"{file}/x"}
    problems = problems_of({"steps": "2-", "every": "0"}, environ, tmp_path)
    toml = str(tmp_path / "opscope.toml")
    assert {(problem.file, problem.key) for problem in problems} == {
        ("command line", "--steps"),
        ("command line", "--every"),
        ("environment", "MS_RDR_MODE"),
        ("environment", "OPSCOPE_RUN_DIR"),
        (toml, "evry"),
        (toml, "keep_runs"),
        (toml, "steps"),
        (file, "common_dump_settings.iteration"),
        (file, "common_dump_settings.dump_mode"),
    }


def test_problems_from_code_do_not_speak_of_a_command_line(tmp_path: Path) -> None:
    (problem,) = problems_of({"steps": "2-"}, {}, tmp_path, source="opscope.start()")
    assert (problem.file, problem.key) == ("opscope.start()", "steps")


def test_a_missing_dump_config_says_who_named_it(tmp_path: Path) -> None:
    (problem,) = problems_of({}, {"MINDSPORE_DUMP_CONFIG": "none.json"}, tmp_path)
    assert str(problem) == "none.json: does not exist (named by MINDSPORE_DUMP_CONFIG)"


@pytest.mark.parametrize(
    ("flags", "with_dump", "writes_run"),
    [
        ({}, False, True),
        ({"no_record": True}, False, True),
        ({"watch": "none"}, False, True),
        ({"no_record": True, "watch": "none"}, False, True),
        ({"no_stats": True}, False, False),
        ({"no_stats": True, "watch": "none", "run_dir": "runs"}, False, False),
        ({}, True, False),
        ({"no_record": False, "no_page": False}, True, False),
        ({"no_page": True, "steps": "0", "budget": "1MB"}, True, False),
        ({"run_dir": "runs"}, True, True),
        ({"watch": "recommended"}, True, True),
        ({"watch": "none"}, True, False),
        ({"write_run": True}, True, True),
        ({"no_stats": True, "watch": "none", "run_dir": "runs"}, True, False),
    ],
)
def test_writes_run(
    tmp_path: Path,
    write_config: WriteConfig,
    flags: dict[str, object],
    with_dump: bool,
    writes_run: bool,
) -> None:
    given = flags | ({"dump": write_config()} if with_dump else {})
    settings = load_run_settings(given, {}, tmp_path)
    assert settings.writes_run is writes_run
    assert settings.active is (writes_run or with_dump)


def test_a_project_can_ask_for_a_run_beside_dumps(
    tmp_path: Path, write_config: WriteConfig
) -> None:
    flags = {"dump": write_config()}
    (tmp_path / "opscope.toml").write_text('run_dir = "runs"\nwatch = "recommended"')
    assert not load_run_settings(flags, {}, tmp_path).writes_run
    (tmp_path / "opscope.toml").write_text("write_run = true")
    assert load_run_settings(flags, {}, tmp_path).writes_run


def test_disabled_reads_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "opscope.toml").write_text("broken")
    environ = {"OPSCOPE_DISABLE": "1", "MS_RDR_MODE": "9", "MINDSPORE_DUMP_CONFIG": "none.json"}
    settings = load_run_settings({"steps": "x"}, environ, tmp_path)
    assert settings == RunSettings(disabled=True)
    assert not settings.writes_run
    assert not settings.active


@pytest.mark.parametrize(
    ("iteration", "first", "steps", "every", "left"),
    [
        ("0", 0, "all", 1, True),
        ("5", 0, "0-4|6-9", 1, False),
        ("5", 0, "0-5", 1, True),
        ("5", 0, "all", 2, False),
        ("5-6", 0, "all", 2, True),
        ("10", 10, "0", 1, True),
        ("10", 10, "10", 1, False),
        ("all", 10, "3", 1, True),
        ("all", 0, "3", 2, False),
    ],
)
def test_something_must_be_left_of_a_dump(
    tmp_path: Path,
    write_config: WriteConfig,
    iteration: str,
    first: int,
    steps: str,
    every: int,
    left: bool,
) -> None:
    file = write_config({"iteration": iteration, "initial_iteration": first})
    flags: dict[str, object] = {"dump": file, "steps": steps, "every": every}
    if left:
        load_run_settings(flags, {}, tmp_path)
        return
    (problem,) = problems_of(flags, {}, tmp_path)
    assert (problem.file, problem.key) == (file, "common_dump_settings.iteration")
    assert problem.value == iteration
    assert (
        problem.message == f"selects no step that --steps {steps} and --every {every} leaves over"
    )


def test_notices(tmp_path: Path, write_config: WriteConfig) -> None:
    file = write_config({"kernels": ["conv"]})
    flags: dict[str, object] = {"dump": file, "steps": "0-5", "every": 2}
    settings = load_run_settings(flags, {}, tmp_path)
    assert settings.dump is not None
    assert settings.notices == settings.dump.notices
    nothing = load_run_settings({"no_stats": True}, {}, tmp_path)
    assert nothing.notices == ("nothing is switched on: the script runs unobserved",)
