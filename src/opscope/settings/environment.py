"""The environment variables, each read once at the start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from opscope.errors import Problem
from opscope.settings.checks import InvalidError, ValueCheck, checked, did_you_mean, integer, one_of
from opscope.settings.paths import absolute

SOURCE = "environment"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_SUBMODULES = re.compile(r"\{\s*(\w+\s*:\s*[0-4]\s*(,\s*\w+\s*:\s*[0-4]\s*)*)?\}")
_PREFIXES = ("OPSCOPE_", "MINDSPORE_DUMP_", "MS_RDR_", "MS_DEBUGGER_")


class Variable(NamedTuple):
    """An environment variable: `status` is "now", "later" or "does not apply".

    A bad value of a `shared` variable, which other programs read too, is only a notice.
    """

    name: str
    status: str
    meaning: str
    check: ValueCheck = str
    shared: bool = False


def whole(low: int, high: int | None = None) -> ValueCheck:
    """A whole number written in digits."""
    in_range = integer(low, high)

    def check(value: str) -> int:
        digits = value.strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", digits, re.ASCII):
            span = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise InvalidError(f"must be a whole number {span}")
        return int(in_range(int(digits)))

    return check


def switch(value: str) -> bool:
    """On or off, as people write it in a shell."""
    word = value.strip().lower()
    if word not in _TRUE + _FALSE:
        raise InvalidError("must be 1 or 0 (or true, yes, on, false, no, off)")
    return word in _TRUE


def _submodules(value: str) -> str:
    if not _SUBMODULES.fullmatch(value.strip()):
        raise InvalidError('must look like "{PARSER:2,ANALYZER:1}", with levels from 0 to 4')
    return value


def _log_directory(value: str) -> str:
    if not re.fullmatch(r"[/0-9a-zA-Z@_.:\\-]+", value.strip(), re.ASCII):
        raise InvalidError("must be of letters, digits and - _ / . @ : only")
    return value.strip()


_LEVEL, _BIT = whole(0, 4), one_of("0", "1")


def _log(name: str, synonym: str, meaning: str, check: ValueCheck) -> tuple[Variable, Variable]:
    """A variable about logs and our name for it."""
    return (
        Variable(name, "now", meaning, check, shared=True),
        Variable(synonym, "now", f"{meaning}; wins over {name}", check, shared=True),
    )


def _recorder(name: str, meaning: str, check: ValueCheck) -> tuple[Variable, Variable]:
    """A variable about the recorder and our name for it."""
    theirs, ours = f"MS_RDR_{name}", f"OPSCOPE_RECORD_{name}"
    return (
        Variable(theirs, "now", meaning, check),
        Variable(ours, "now", f"{meaning}; wins over {theirs}", check),
    )


_ALL = (
    Variable("OPSCOPE_DUMP_CONFIG", "now", "the dump config; wins over MINDSPORE_DUMP_CONFIG"),
    Variable("OPSCOPE_DISABLE", "now", "1 switches opscope off entirely", switch),
    Variable("OPSCOPE_RUN_DIR", "now", "the run directory"),
    Variable("OPSCOPE_PAGE", "now", "0 starts no page beside a run", switch),
    Variable("OPSCOPE_NATIVE", "now", "0 does without native code", switch),
    Variable("OPSCOPE_RUN_ID", "now", "the run that processes join, for those without a launcher"),
    Variable("OPSCOPE_SETTINGS", "now", "settings handed to spawned processes; not set by hand"),
    Variable("OPSCOPE_TOKEN", "now", "the secret that guards the page and the control of a run"),
    Variable("OPSCOPE_SERVER", "now", "the server that `ctl` and `attach` ask"),
    Variable("OPSCOPE_CERTIFICATE", "now", "the certificate of a server that is trusted"),
    Variable("RANK", "now", "the rank of this process", whole(0)),
    Variable("RANK_ID", "now", "the rank of this process if RANK is not set", whole(0)),
    Variable("WORLD_SIZE", "now", "the number of ranks", whole(1)),
    Variable("MINDSPORE_DUMP_CONFIG", "now", "the dump config"),
    Variable("MS_DIAGNOSTIC_DATA_PATH", "now", "where dumps go whose config has no path"),
    Variable(
        "MS_DEV_SAVE_GRAPHS", "now", "1 to 3 save the graphs, also without a dump", whole(0, 3)
    ),
    Variable(
        "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT",
        "now",
        "0 also dumps outputs that nothing ever reads",
        _BIT,
    ),
    *_recorder("ENABLE", "1 switches the recorder on, 0 off", _BIT),
    *_recorder("MODE", "1: export what ends abnormally; 2: always", one_of("1", "2")),
    *_recorder("PATH", "where the recorder exports to; an absolute path", absolute),
    Variable(
        "OPSCOPE_RECORD_HANG", "now", "seconds without an operator that count as a hang", whole(0)
    ),
    Variable("ENABLE_MS_DEBUGGER", "now", "connects the training to a server, and waits", switch),
    Variable("MS_DEBUGGER_HOST", "now", "the host of that server"),
    Variable("MS_DEBUGGER_PORT", "now", "the port of that server", whole(1, 65535)),
    Variable(
        "MS_DEBUGGER_PARTIAL_MEM",
        "now",
        "1 keeps few values for looking at them: 64 MiB instead of 1 GiB",
        _BIT,
    ),
    *_log("GLOG_v", "OPSCOPE_LOG_LEVEL", "the lowest level that is logged", _LEVEL),
    *_log("GLOG_logtostderr", "OPSCOPE_LOG_TO_STDERR", "1: to the screen; 0: to files", _BIT),
    *_log("GLOG_log_dir", "OPSCOPE_LOG_DIR", "where log files go", _log_directory),
    *_log("GLOG_stderrthreshold", "OPSCOPE_LOG_STDERR_LEVEL", "the lowest level shown", _LEVEL),
    *_log("GLOG_log_max", "OPSCOPE_LOG_MAX_MB", "the size of a log file in MB", whole(1)),
    *_log("logger_maxBytes", "OPSCOPE_LOG_MAX_BYTES", "the size of a log file", whole(1)),
    *_log("logger_backupCount", "OPSCOPE_LOG_BACKUPS", "how many files are kept", whole(1)),
    *_log("MS_SUBMODULE_LOG_v", "OPSCOPE_LOG_SUBMODULES", "levels of single parts", _submodules),
)
VARIABLES = {variable.name: variable for variable in _ALL}


@dataclass(frozen=True)
class Environment:
    """The wishes in the environment. Empty strings mean that a variable is not set."""

    dump_config: str = ""
    dump_variable: str = ""
    """The name of the variable that `dump_config` came from."""
    run_dir: str = ""
    disabled: bool = False
    saves_graphs: bool = False
    page: bool = True
    server: str = ""
    """host:port of the server that the training is to wait for."""
    small_memory: bool = False
    recorder: Mapping[str, object] = field(default_factory=dict)
    """The settings of the recorder: enable, mode, path, hang."""
    rank: int = 0
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Read and check every variable; problems are collected, not raised."""
    values: dict[str, object] = {}
    problems: list[Problem] = []
    notices: list[str] = []
    for variable in _set_ones(environ):
        name = variable.name
        value, found = checked(variable.check, environ[name], SOURCE, name)
        if not found:
            values[name] = value
        elif variable.shared:
            notices += map(str, found)
        else:
            problems += found
    notices += [*_without_effect(environ), *_misspelt(environ)]
    return _environment(values, problems, notices)


def _environment(
    values: Mapping[str, object], problems: list[Problem], notices: list[str]
) -> Environment:
    configs = ("OPSCOPE_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG")
    variable = next((name for name in configs if name in values), "")
    rank = values.get("RANK", values.get("RANK_ID", 0))
    return Environment(
        dump_config=str(values.get(variable, "")),
        dump_variable=variable,
        run_dir=str(values.get("OPSCOPE_RUN_DIR", "")),
        disabled=bool(values.get("OPSCOPE_DISABLE", False)),
        saves_graphs=bool(values.get("MS_DEV_SAVE_GRAPHS", 0)),
        page=bool(values.get("OPSCOPE_PAGE", True)),
        server=_server(values),
        small_memory=values.get("MS_DEBUGGER_PARTIAL_MEM") == "1",
        recorder=_recorder_settings(values),
        rank=rank if isinstance(rank, int) else 0,
        problems=tuple(problems),
        notices=tuple(notices),
    )


def _server(values: Mapping[str, object]) -> str:
    if not values.get("ENABLE_MS_DEBUGGER"):
        return ""
    host, port = values.get("MS_DEBUGGER_HOST", "127.0.0.1"), values.get("MS_DEBUGGER_PORT", 50051)
    return f"{host}:{port}"


def _recorder_settings(values: Mapping[str, object]) -> dict[str, object]:
    given: dict[str, object] = {}
    for prefix in ("MS_RDR_", "OPSCOPE_RECORD_"):
        for name in ("ENABLE", "MODE", "PATH", "HANG"):
            if prefix + name in values:
                given[name.lower()] = values[prefix + name]
    if "enable" in given:
        given["enable"] = given["enable"] == "1"
    if "mode" in given:
        given["mode"] = int(str(given["mode"]))
    return given


def _set_ones(environ: Mapping[str, str]) -> Iterator[Variable]:
    return (variable for variable in VARIABLES.values() if environ.get(variable.name, "").strip())


def _without_effect(environ: Mapping[str, str]) -> Iterator[str]:
    """One sentence for all variables that do nothing yet, one for those that never will."""
    for status, words in (("later", "no effect yet"), ("does not apply", "no effect here")):
        names = [variable.name for variable in _set_ones(environ) if variable.status == status]
        if names:
            yield f"environment: {', '.join(names)} {'has' if len(names) == 1 else 'have'} {words}"


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    for name in environ:
        if name.startswith(_PREFIXES) and name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES, cutoff=0.85)
            if hint:
                yield f"environment: {name} is not a variable of opscope{hint}"
