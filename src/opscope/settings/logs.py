"""The settings of logs, from the environment: nothing in them can keep a program from starting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from opscope.settings.checks import checked, did_you_mean
from opscope.settings.environment import SOURCE, VARIABLES

SYNONYMS = {
    "GLOG_v": "OPSCOPE_LOG_LEVEL",
    "GLOG_logtostderr": "OPSCOPE_LOG_TO_STDERR",
    "GLOG_log_dir": "OPSCOPE_LOG_DIR",
    "GLOG_stderrthreshold": "OPSCOPE_LOG_STDERR_LEVEL",
    "GLOG_log_max": "OPSCOPE_LOG_MAX_MB",
    "logger_maxBytes": "OPSCOPE_LOG_MAX_BYTES",
    "logger_backupCount": "OPSCOPE_LOG_BACKUPS",
    "MS_SUBMODULE_LOG_v": "OPSCOPE_LOG_SUBMODULES",
}
"""MindSpore's variables → ours, which win."""
SUBMODULES = (
    *("analysis", "capture", "commands", "dump", "messages", "native", "pipeline", "printing"),
    *("ranks", "read", "rundir", "script", "session", "settings", "stats", "train", "watch"),
)
"""The parts of opscope that can have a level of their own."""
COUNTERPARTS: dict[str, tuple[str, ...]] = {
    "DEBUG": ("dump", "rundir", "watch"),
    "KERNEL": ("native", "stats"),
    "ME": SUBMODULES,
    "PARALLEL": ("ranks",),
    "PIPELINE": ("pipeline",),
    "PYNATIVE": ("capture",),
    "SESSION": ("session",),
}
"""Parts of MindSpore → what does the same here."""
WITHOUT_COUNTERPART = frozenset(
    [
        *("ANALYZER", "COMMON", "CORE", "DEVICE", "EXPRESS", "GE_ADPT", "MD", "OPTIMIZER"),
        *("PARSER", "PRE_ACT", "PROFILER", "UTILS", "VM"),
    ]
)
"""Parts of MindSpore that opscope has nothing like."""
_MB = 1 << 20


@dataclass(frozen=True)
class LogSettings:
    """The place and levels of logs; levels are those of MindSpore, 0 DEBUG to 4 CRITICAL."""

    level: int = 2
    to_stderr: bool = True
    directory: str = ""
    """The folder that files go to if not to stderr."""
    stderr_level: int = 2
    """The level from which messages are shown on the screen beside files."""
    max_bytes: int = 50 * _MB
    backups: int = 30
    submodules: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def read_log_settings(environ: Mapping[str, str]) -> LogSettings:
    """Read what the environment asks for; a bad value is a notice, and the default is taken."""
    values: dict[str, object] = {}
    notices: list[str] = []
    for name, synonym in SYNONYMS.items():
        given = synonym if environ.get(synonym, "").strip() else name
        if environ.get(given, "").strip():
            value, problems = checked(VARIABLES[given].check, environ[given], SOURCE, given)
            notices += map(str, problems)
            if not problems:
                values[name] = value
    levels, unknown = _levels(str(values.get("MS_SUBMODULE_LOG_v", "{}")))
    directory = str(values.get("GLOG_log_dir", ""))
    to_stderr = values.get("GLOG_logtostderr", "1") == "1"
    if not to_stderr and not directory:
        to_stderr = True
        notices.append(
            "environment: logs are to go to files (GLOG_logtostderr = 0) but GLOG_log_dir does not "
            "say where; they go to stderr"
        )
    size = values.get("logger_maxBytes", _int(values.get("GLOG_log_max", 50)) * _MB)
    return LogSettings(
        level=_int(values.get("GLOG_v", 2)),
        to_stderr=to_stderr,
        directory=directory,
        stderr_level=_int(values.get("GLOG_stderrthreshold", 2)),
        max_bytes=_int(size),
        backups=_int(values.get("logger_backupCount", 30)),
        submodules=levels,
        notices=(*notices, *unknown),
    )


def _levels(text: str) -> tuple[dict[str, int], list[str]]:
    """Levels by submodule, and what is to be said of names that are none."""
    levels: dict[str, int] = {}
    notices = []
    for name, level in re.findall(r"(\w+)\s*:\s*([0-4])", text):
        ours = list(_ours(name))
        levels |= dict.fromkeys(ours, int(level))
        if not ours:
            notices.append(f"environment: MS_SUBMODULE_LOG_v: {_why_none(name)}")
    return levels, notices


def _ours(name: str) -> Iterator[str]:
    if name.lower() in SUBMODULES:
        yield name.lower()
    yield from COUNTERPARTS.get(name.upper(), ())


def _why_none(name: str) -> str:
    if name.upper() in WITHOUT_COUNTERPART:
        return f"{name} is a part of MindSpore that opscope has nothing like; it has no effect"
    known = [*SUBMODULES, *COUNTERPARTS]
    return f"{name} is no part of opscope{did_you_mean(name, known)}; it has no effect"


def _int(value: object) -> int:
    return value if isinstance(value, int) else int(str(value))
