from __future__ import annotations

import pytest

from opscope.settings.environment import VARIABLES, read_environment

GOOD: dict[str, list[str]] = {
    "OPSCOPE_DUMP_CONFIG": ["/a/dump.json", "dump.json"],
    "OPSCOPE_DISABLE": ["0", "false", "No", "off"],
    "OPSCOPE_RUN_DIR": ["runs"],
    "OPSCOPE_RUN_ID": ["a1b2"],
    "OPSCOPE_SETTINGS": ["x"],
    "OPSCOPE_TOKEN": ["secret"],
    "OPSCOPE_SERVER": ["127.0.0.1:8080"],
    "OPSCOPE_CERTIFICATE": ["server.pem"],
    "RANK": ["0", "17"],
    "RANK_ID": ["3"],
    "WORLD_SIZE": ["1", "16"],
    "MINDSPORE_DUMP_CONFIG": ["/a/dump.json"],
    "MS_DIAGNOSTIC_DATA_PATH": ["/data", "not checked unless it is used"],
    "MS_DEV_SAVE_GRAPHS": ["0", "3"],
    "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT": ["0", "1"],
    "OPSCOPE_PAGE": ["0", "1"],
    "OPSCOPE_NATIVE": ["0", "1", "false"],
    "MS_RDR_ENABLE": ["0", "1"],
    "MS_RDR_MODE": ["1", "2"],
    "MS_RDR_PATH": ["/rdr"],
    "OPSCOPE_RECORD_ENABLE": ["0", "1"],
    "OPSCOPE_RECORD_MODE": ["1", "2"],
    "OPSCOPE_RECORD_PATH": ["/rdr"],
    "OPSCOPE_RECORD_HANG": ["0", "600"],
    "ENABLE_MS_DEBUGGER": ["1", "True", "0", "false"],
    "MS_DEBUGGER_HOST": ["127.0.0.1"],
    "MS_DEBUGGER_PORT": ["1", "65535"],
    "MS_DEBUGGER_PARTIAL_MEM": ["0", "1"],
    "GLOG_v": ["0", "4"],
    "GLOG_logtostderr": ["0", "1"],
    "GLOG_log_dir": ["/var/log"],
    "GLOG_stderrthreshold": ["2"],
    "GLOG_log_max": ["50"],
    "MS_SUBMODULE_LOG_v": ["{PARSER:2,ANALYZER:1}", "{ PARSER : 2 }", "{}"],
    "logger_maxBytes": ["52428800"],
    "logger_backupCount": ["30"],
    "OPSCOPE_LOG_LEVEL": ["0", "4"],
    "OPSCOPE_LOG_TO_STDERR": ["0", "1"],
    "OPSCOPE_LOG_DIR": ["/var/log/a-b_c.d"],
    "OPSCOPE_LOG_STDERR_LEVEL": ["2"],
    "OPSCOPE_LOG_MAX_MB": ["50"],
    "OPSCOPE_LOG_MAX_BYTES": ["1000"],
    "OPSCOPE_LOG_BACKUPS": ["3"],
    "OPSCOPE_LOG_SUBMODULES": ["{dump:1}"],
}
BAD: dict[str, list[str]] = {
    "OPSCOPE_DISABLE": ["2", "maybe"],
    "OPSCOPE_NATIVE": ["2"],
    "RANK": ["-1", "gold", "1.0"],
    "RANK_ID": ["x"],
    "WORLD_SIZE": ["0", "two"],
    "MS_DEV_SAVE_GRAPHS": ["4", "-1", "yes"],
    "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT": ["2"],
    "MS_RDR_ENABLE": ["yes", "2"],
    "MS_RDR_MODE": ["0", "3"],
    "MS_RDR_PATH": ["relative"],
    "OPSCOPE_RECORD_ENABLE": ["yes", "2"],
    "OPSCOPE_RECORD_MODE": ["0", "3"],
    "OPSCOPE_RECORD_PATH": ["relative"],
    "OPSCOPE_RECORD_HANG": ["-1", "soon"],
    "ENABLE_MS_DEBUGGER": ["2"],
    "MS_DEBUGGER_PORT": ["0", "65536", "http"],
    "MS_DEBUGGER_PARTIAL_MEM": ["2"],
}
BAD_SHARED: dict[str, list[str]] = {
    "GLOG_v": ["5", "x"],
    "GLOG_logtostderr": ["2"],
    "GLOG_stderrthreshold": ["9"],
    "GLOG_log_dir": ["/a b", "/a;rm"],
    "GLOG_log_max": ["abc", "0"],
    "MS_SUBMODULE_LOG_v": ["PARSER:2", "{PARSER:9}", "{PARSER}"],
    "OPSCOPE_LOG_LEVEL": ["debug"],
    "logger_maxBytes": ["abc"],
    "logger_backupCount": ["-1"],
}


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in table.items() for value in values]


def test_every_variable_is_tried() -> None:
    assert GOOD.keys() == VARIABLES.keys()


@pytest.mark.parametrize(("name", "value"), pairs(GOOD))
def test_good(name: str, value: str) -> None:
    environment = read_environment({name: value})
    assert environment.problems == ()
    said = {"now": 0, "later": 1, "does not apply": 1}[VARIABLES[name].status]
    assert len(environment.notices) == said


@pytest.mark.parametrize(("name", "value"), pairs(BAD))
def test_bad(name: str, value: str) -> None:
    (problem,) = read_environment({name: value}).problems
    assert (problem.file, problem.key, problem.value) == ("environment", name, value)
    assert "must" in problem.message


@pytest.mark.parametrize(("name", "value"), pairs(BAD_SHARED))
def test_bad_values_meant_for_other_programs_are_only_noticed(name: str, value: str) -> None:
    environment = read_environment({name: value})
    assert environment.problems == ()
    assert any(f'{name} = "{value}": must ' in notice for notice in environment.notices)


@pytest.mark.parametrize("name", sorted(VARIABLES))
@pytest.mark.parametrize("value", ["", "  "])
def test_empty_is_as_good_as_unset(name: str, value: str) -> None:
    assert read_environment({name: value}) == read_environment({})


def test_the_recorder() -> None:
    theirs = {"MS_RDR_ENABLE": "1", "MS_RDR_MODE": "2", "MS_RDR_PATH": "/theirs"}
    expected = {"enable": True, "mode": 2, "path": "/theirs"}
    assert read_environment(theirs).recorder == expected
    ours = {"OPSCOPE_RECORD_ENABLE": "0", "OPSCOPE_RECORD_PATH": "/o", "OPSCOPE_RECORD_HANG": "7"}
    expected |= {"enable": False, "path": "/o", "hang": 7}
    assert read_environment(theirs | ours).recorder == expected
    assert read_environment(theirs).notices == ()


def test_problems_of_all_variables_at_once() -> None:
    environment = read_environment({"MS_RDR_MODE": "3", "RANK": "x", "OPSCOPE_DISABLE": "?"})
    assert {problem.key for problem in environment.problems} == {
        "MS_RDR_MODE",
        "RANK",
        "OPSCOPE_DISABLE",
    }


def test_our_dump_config_wins() -> None:
    both = {"MINDSPORE_DUMP_CONFIG": "theirs.json", "OPSCOPE_DUMP_CONFIG": "ours.json"}
    environment = read_environment(both)
    assert environment.dump_config == "ours.json"
    assert environment.dump_variable == "OPSCOPE_DUMP_CONFIG"
    environment = read_environment(both | {"OPSCOPE_DUMP_CONFIG": ""})
    assert environment.dump_config == "theirs.json"
    assert environment.dump_variable == "MINDSPORE_DUMP_CONFIG"


@pytest.mark.parametrize(
    ("environ", "rank"),
    [({}, 0), ({"RANK_ID": "3"}, 3), ({"RANK": "2", "RANK_ID": "3"}, 2), ({"RANK": "0"}, 0)],
)
def test_rank(environ: dict[str, str], rank: int) -> None:
    assert read_environment(environ).rank == rank


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_disabled(value: str) -> None:
    assert read_environment({"OPSCOPE_DISABLE": value}).disabled


def test_a_misspelt_variable_is_noticed() -> None:
    (notice,) = read_environment({"OPSCOPE_DUMP_CONFG": "x", "OPSCOPE_ZZZ": "1"}).notices
    assert 'OPSCOPE_DUMP_CONFG is not a variable of opscope (did you mean "OPSCOPE_DUMP' in notice
