"""The settings of a run: flags, then the dump config, then the environment, then the project."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opscope.errors import MISSING, ConfigError, OpscopeError, Problem
from opscope.settings.checks import InvalidError
from opscope.settings.context import current_context, read_env_config
from opscope.settings.dump import DumpSettings, load_dump_settings
from opscope.settings.dump_keys import DOTTED
from opscope.settings.environment import Environment, read_environment
from opscope.settings.iterations import ALL_STEPS, Iterations
from opscope.settings.options import (
    COMMAND_LINE,
    Given,
    Layer,
    environment_layer,
    flag_layer,
    project_layer,
)
from opscope.settings.paths import is_file, writable_directory
from opscope.settings.projectfile import read_project_file
from opscope.settings.recorder import RecorderSettings
from opscope.settings.recorder import merged as merged_recorder
from opscope.settings.wire import WIRE_VERSION, decode, encode


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run: what it watches, records and dumps."""

    dump: DumpSettings | None = None
    watch: str = "recommended"
    """Watchpoints: "none", "recommended", a file or a specification."""
    recorder: RecorderSettings = field(default_factory=RecorderSettings)
    stats: bool = True
    """True if statistics are computed; without them nothing is watched."""
    extra_stats: tuple[str, ...] = ()
    """Names of statistics beside those of the row."""
    page: bool = True
    every: int = 1
    """Look at one step in so many."""
    steps: Iterations = ALL_STEPS
    scope: str | None = None
    """A glob on the scope path of operators."""
    run_dir: Path | None = None
    budget_bytes: int = 2 * 1024**3
    keep_runs: int = 0
    """The number of runs to keep; 0 keeps all."""
    include: frozenset[str] = field(default_factory=frozenset)
    """Phases that are left out unless asked for: "setup", "data", "eval"."""
    on_hit: str = "stop"
    """The effect of a hit: "stop" ends training, "log" only tells of it."""
    on_hit_kinds: str = "nonfinite"
    """The hits that have it: "nonfinite", "all", or abbreviations of conditions."""
    quick: bool = False
    """Check finiteness only."""
    strict: bool = False
    """Wait for the statistics of a GPU before each update."""
    save_state: int = 1 << 30
    """The number of bytes of state that a hit may save; 0 saves nothing."""
    server: str = ""
    """host:port of the server that may control training; empty for none."""
    wait: bool = False
    """Hold before step 0 until told to go on."""
    patience: int = 600
    """Seconds that training holds after the last sign of anybody."""
    keep: str = "named"
    """Whose values are kept for who looks: "named" nodes, "all", or "none"."""
    keep_budget: int = 0
    """Bytes of memory for them; 0 for the usual ones."""
    small_memory: bool = False
    """Keep few values for looking at them."""
    disabled: bool = False
    saves_graphs: bool = False
    """True if graphs are written also without a dump."""
    run_asked: bool = False
    """True if a run directory was asked for beside a dump."""
    notices: tuple[str, ...] = ()
    """Sentences to say once at the start."""

    @property
    def watches(self) -> bool:
        """True if any watchpoint is set."""
        return self.watch != "none" and self.stats

    @property
    def writes_run(self) -> bool:
        """True if statistics go to a run directory; a dump alone needs none."""
        return self.stats and not self.disabled and (self.dump is None or self.run_asked)

    @property
    def extra_bytes(self) -> int:
        """The part of the budget that extra statistics may take: a quarter, if there are any."""
        return self.budget_bytes // 4 if self.extra_stats else 0

    @property
    def rows_bytes(self) -> int:
        """The rest of it, for rows."""
        return self.budget_bytes - self.extra_bytes

    @property
    def records(self) -> bool:
        """True if the recorder is on."""
        return self.recorder.enable and not self.disabled

    @property
    def has_run_directory(self) -> bool:
        """True if anything is written to one."""
        return self.writes_run or (self.records and not self.recorder.path)

    @property
    def active(self) -> bool:
        """True if anything is switched on at all."""
        captured = self.dump is not None or self.writes_run or self.saves_graphs
        wanted = captured or self.records
        return wanted and not self.disabled

    def to_json(self) -> str:
        """These settings as text, for a process that is to have exactly the same."""
        data = encode(self) | {"version": WIRE_VERSION}
        return json.dumps(data, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> RunSettings:
        """The settings that `to_json` wrote, by the same version of opscope."""
        try:
            data = json.loads(text)
            if data.pop("version") != WIRE_VERSION:
                raise ValueError("written by another version")
            data["recorder"] = RecorderSettings(**data["recorder"])
            if data["dump"] is not None:
                data["dump"] = DumpSettings(**decode(data["dump"]))
            return cls(**decode(data))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise OpscopeError(f"these are not settings of a run: {error}") from error


FurtherCheck = Callable[[Given], Sequence[Problem]]
"""Looks at an option that is of the right type, and says what is wrong with it."""


def load_run_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    source: str = COMMAND_LINE,
    further: Mapping[str, FurtherCheck] | None = None,
    records: bool = False,
) -> RunSettings:
    """Merge all sources, or raise ConfigError with every problem of all of them.

    Keys of `flags` that are no option are left alone, so `vars(args)` can be passed as it is.
    `source` is what problems call the flags. `further` has checks of options by their names, for
    what this folder knows nothing of. `records` says whether the recorder is on unless told.
    """
    environment = read_environment(environ)
    if environment.disabled:
        return RunSettings(disabled=True)
    folder = cwd.absolute()
    layers = (
        flag_layer(flags, folder, source),
        environment_layer(environment, folder),
        project_layer(read_project_file(folder)),
    )
    problems = [problem for layer in layers for problem in layer.problems]
    merged = _merge(layers)
    dump = _load_dump(merged.get("dump"), environ, problems)
    _check_further(merged, further or {}, problems)
    run_dir = _load_run_dir(merged.get("run_dir"), problems)
    asks_for_run = _asks_for_run(layers)
    recorder = _load_recorder(
        layers, environment, records and (dump is None or asks_for_run), problems
    )
    if recorder.enable and not recorder.path and dump is not None and not asks_for_run:
        problems.append(_needs_path(layers))
    problems += _contradictions(layers[0])
    if problems:
        raise ConfigError(list(_unique(problems)))
    settings = _settings(merged, dump, run_dir, asks_for_run)
    settings = replace(settings, recorder=recorder)
    settings = replace(
        settings, saves_graphs=environment.saves_graphs, small_memory=environment.small_memory
    )
    _refuse_empty_dump(settings, merged)
    return replace(settings, notices=(*environment.notices, *_notices(settings, layers[0])))


def _merge(layers: Sequence[Layer]) -> dict[str, Given]:
    merged: dict[str, Given] = {}
    for layer in reversed(layers):
        merged |= layer.options
    return merged


def _load_dump(
    given: Given | None, environ: Mapping[str, str], problems: list[Problem]
) -> DumpSettings | None:
    if given is None:
        return None
    try:
        return load_dump_settings(given.value, environ, given.folder)
    except ConfigError as error:
        problems += [_with_origin(problem, given) for problem in error.problems]
        return None


def _load_recorder(
    layers: Sequence[Layer], environment: Environment, records: bool, problems: list[Problem]
) -> RecorderSettings:
    """Flags, then the config file, then the environment, then the project."""
    flags, _, project = (layer.options for layer in layers)
    sources: list[Mapping[str, Any]] = []
    for options in (flags, project):
        if "record" in options:
            sources.append({"enable": options["record"].value})
        if "config" in options:
            config, found = read_env_config(options["config"].value, options["config"].folder)
            problems += found
            sources.append(config.recorder)
        if options is flags:
            sources.append(current_context().recorder)
            sources.append(environment.recorder)
    if "rdr" in project:
        sources.append(project["rdr"].value)
    return merged_recorder(sources, records)


def _needs_path(layers: Sequence[Layer]) -> Problem:
    given = next((each.options["record"] for each in layers if "record" in each.options), None)
    file, key = (given.file, given.key) if given else ("recorder", "rdr.path")
    return Problem(
        file, key, MISSING, "needs a path for the recorder beside a dump: rdr.path or MS_RDR_PATH"
    )


def _contradictions(flags: Layer) -> Iterator[Problem]:
    """Find what needs statistics though there are to be none."""
    stats, watch = flags.options.get("stats"), flags.options.get("watch")
    if stats is not None and not stats.value and watch is not None and watch.value != "none":
        message = f"contradicts {stats.key}: watchpoints are checked on statistics"
        yield Problem(watch.file, watch.key, watch.value, message)


def _with_origin(problem: Problem, given: Given) -> Problem:
    """Say who named a file that cannot be read at all."""
    if problem.key:
        return problem
    return replace(problem, message=f"{problem.message} (named by {given.key})")


def _check_further(
    merged: Mapping[str, Given], further: Mapping[str, FurtherCheck], problems: list[Problem]
) -> None:
    """Check what only others understand, such as watchpoints."""
    for name, check in further.items():
        if name in merged:
            problems += check(merged[name])


def _load_run_dir(given: Given | None, problems: list[Problem]) -> Path | None:
    if given is None:
        return None
    try:
        return writable_directory(str(given.folder / given.value))
    except InvalidError as error:
        problems += error.problems(given.file, given.key, given.value)
        return None


def _settings(
    merged: Mapping[str, Given], dump: DumpSettings | None, run_dir: Path | None, run_asked: bool
) -> RunSettings:
    others = ("record", "rdr", "config", "write_run")
    values = {name: given.value for name, given in merged.items() if name not in others}
    values |= {"dump": dump, "run_dir": run_dir, "run_asked": run_asked}
    watch = merged.get("watch")
    if watch is not None and is_file(watch.folder / watch.value):
        values["watch"] = str(watch.folder / watch.value)  # where it is for processes elsewhere
    if values.get("wait") and watch is None:
        values["watch"] = "none"  # until the person who is waited for has said which
    if "budget" in values:
        values["budget_bytes"] = values.pop("budget")
    return RunSettings(**values)


def _refuse_empty_dump(settings: RunSettings, merged: Mapping[str, Given]) -> None:
    """Refuse settings by which no step would be dumped: unwatched ones are not."""
    dump = settings.dump
    if dump is None or settings.steps.meets(
        dump.iterations, dump.initial_iteration, settings.every
    ):
        return
    limits = [merged[name] for name in ("steps", "every") if name in merged]
    by_what = " and ".join(f"{limit.key} {limit.value}" for limit in limits)
    message = f"selects no step that {by_what} leaves over"
    raise ConfigError([Problem(dump.file, DOTTED["iteration"], dump.iterations.text, message)])


def _asks_for_run(layers: Sequence[Layer]) -> bool:
    """Tell whether a run is wanted beside a dump: by a flag, or by `write_run = true`."""
    flags, *others = (layer.options for layer in layers)
    watch = flags.get("watch")
    asked = any(
        options["write_run"].value for options in (flags, *others) if "write_run" in options
    )
    return "run_dir" in flags or (watch is not None and watch.value != "none") or asked


def _notices(settings: RunSettings, flags: Layer) -> Iterator[str]:
    if settings.dump is not None:
        yield from settings.dump.notices
    if not settings.active:
        yield "nothing is switched on: the script runs unobserved"


def _unique(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Problems without repetitions; their values need not be hashable."""
    shown: set[str] = set()
    for problem in problems:
        if str(problem) not in shown:
            shown.add(str(problem))
            yield problem
