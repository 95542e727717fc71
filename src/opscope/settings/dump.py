"""The settings of a dump, from its JSON config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import MISSING, ConfigError, Problem
from opscope.settings.checks import InvalidError
from opscope.settings.dump_combinations import settle
from opscope.settings.dump_keys import COMMON, DOTTED, KEYS, report_combinations
from opscope.settings.iterations import Iterations
from opscope.settings.jsonfile import read_json_file
from opscope.settings.kernels import KernelPattern
from opscope.settings.paths import absolute, writable_directory
from opscope.settings.sections import CheckedContent, read_sections

FALLBACK_VARIABLE = "MS_DIAGNOSTIC_DATA_PATH"
FALLBACK_FOLDER = "debug_dump"
USELESS_VARIABLE = "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT"


@dataclass(frozen=True)
class DumpSettings:
    """The settings of a dump; docs/dump.md says what each field means."""

    file: str
    path: Path
    net_name: str
    dump_mode: int
    iterations: Iterations
    initial_iteration: int
    saved_data: str
    input_output: int
    kernels: tuple[KernelPattern, ...]
    support_device: tuple[int, ...] | None
    statistic_category: tuple[str, ...]
    op_debug_mode: int
    overflow_number: int
    file_format: str
    enable: bool
    trans_flag: bool
    stat_calc_mode: str | None
    device_stat_precision_mode: str
    sample_mode: int
    sample_num: int
    save_kernel_args: bool
    text: str
    """The config file's own text."""
    notices: tuple[str, ...] = ()
    """Sentences to say once at the start."""
    ignores_useless_outputs: bool = True
    """True if outputs that nothing ever reads are left out."""

    @property
    def wants_inputs(self) -> bool:
        """True if inputs of operators are dumped."""
        return self.input_output in (0, 1)

    @property
    def wants_outputs(self) -> bool:
        """True if outputs of operators are dumped."""
        return self.input_output in (0, 2)

    @property
    def saves_tensors(self) -> bool:
        """True if whole tensors are written."""
        return self.saved_data in ("tensor", "full")

    @property
    def saves_statistics(self) -> bool:
        """True if statistic.csv is written."""
        return self.saved_data in ("statistic", "full")

    @property
    def samples(self) -> int:
        """The number of elements of each tensor that are saved; 0 for all of them."""
        return self.sample_num if self.sample_mode else 0

    @property
    def synchronous(self) -> bool:
        """True if data is on disk before the next operator runs."""
        return self.enable


def load_dump_settings(
    file: str, environ: Mapping[str, str], folder: Path | None = None
) -> DumpSettings:
    """Read a dump config, or raise ConfigError with every problem in it.

    A relative `file` is taken from `folder`, by default the current directory.
    """
    document = read_json_file(file, folder)
    if document.data is None:
        raise ConfigError(document.problems)
    reading = read_sections(file, document.data, KEYS, required=(COMMON,))
    report_combinations(reading)
    path = _dump_path(reading, environ)
    problems = [*document.problems, *reading.problems]
    if problems or path is None:
        raise ConfigError(problems)
    values, said = settle(reading.values, reading.given)
    values |= {"path": path, "iterations": values.pop("iteration")}
    values["ignores_useless_outputs"] = environ.get(USELESS_VARIABLE, "").strip() != "0"
    notices = tuple(f"{file}: {DOTTED[key]} {words}" for key, words in said)
    return DumpSettings(file=file, text=document.text, notices=notices, **values)


def _dump_path(reading: CheckedContent, environ: Mapping[str, str]) -> Path | None:
    """Return where the dump goes: the key, or else the folder that the environment names."""
    written = reading.values.get("path", MISSING)
    if written is MISSING:
        return None
    if written:
        return _checked_path(reading, reading.file, DOTTED["path"], written, "")
    fallback = environ.get(FALLBACK_VARIABLE, "")
    if fallback:
        return _checked_path(reading, "environment", FALLBACK_VARIABLE, fallback, FALLBACK_FOLDER)
    shown = "" if "path" in reading.given else MISSING
    message = f"is not set; write an absolute path here or set {FALLBACK_VARIABLE}"
    reading.problem(DOTTED["path"], shown, message)
    return None


def _checked_path(
    reading: CheckedContent, file: str, key: str, value: str, subfolder: str
) -> Path | None:
    try:
        return writable_directory(str(Path(absolute(value), subfolder)))
    except InvalidError as error:
        reading.problems.append(Problem(file, key, value, str(error)))
        return None
