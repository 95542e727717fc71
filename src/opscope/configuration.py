"""The settings of a run, checked together with what only other folders understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from opscope.errors import ConfigError, Problem
from opscope.settings.checks import did_you_mean
from opscope.settings.options import COMMAND_LINE, Given
from opscope.settings.run import RunSettings, load_run_settings


def load_configuration(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    source: str = COMMAND_LINE,
    records: bool = False,
) -> RunSettings:
    """Load the settings of a run, or raise ConfigError with every problem there is.

    `records` says whether the recorder is on unless told otherwise.
    """
    further = {
        "watch": _problems_of_watch,
        "on_hit_kinds": _problems_of_kinds,
        "extra_stats": _problems_of_extra_stats,
    }
    return load_run_settings(flags, environ, cwd, source, further, records)


def _problems_of_watch(given: Given) -> Sequence[Problem]:
    """Watchpoints are read again where they are used; here only their problems count."""
    if given.value in ("none", "recommended"):
        return ()
    from opscope.judge.watch_set import load  # which needs NumPy

    try:
        load(given.value, given.folder)
    except ConfigError as error:
        return error.problems
    return ()


def _problems_of_kinds(given: Given) -> Sequence[Problem]:
    from opscope.watch.reaction import kinds_of

    try:
        kinds_of(given.value)
    except ValueError as error:
        message = f"{error}; give nonfinite, all, or abbreviations: TO,WCL"
        return [Problem(given.file, given.key, given.value, message)]
    return ()


def _problems_of_extra_stats(given: Given) -> Sequence[Problem]:
    from opscope.stats.extra import names

    known = names()
    return [
        Problem(
            given.file,
            given.key,
            name,
            f"is no extra statistic{did_you_mean(name, known)}; there are {', '.join(known)}",
        )
        for name in given.value
        if name not in known
    ]
