"""The dump config: which keys there are, what each allows, and what selects nothing."""

from __future__ import annotations

from opscope.errors import MISSING
from opscope.settings.checks import InvalidError, boolean, integer, list_of, one_of, text
from opscope.settings.dump_combinations import EXCEPTION
from opscope.settings.iterations import ALL_STEPS, MAX_STEP, Iterations
from opscope.settings.kernels import KernelPattern
from opscope.settings.paths import file_name
from opscope.settings.sections import CheckedContent, SettingKey

COMMON = "common_dump_settings"
E2E = "e2e_dump_settings"

STATISTICS = (
    "max",
    "min",
    "avg",
    "count",
    "negative zero count",
    "positive zero count",
    "nan count",
    "negative inf count",
    "positive inf count",
    "zero count",
    "md5",
    "l2norm",
    "hash",
    "hash:md5",
    "hash:sha1",
)
DEFAULT_STATISTICS = ("max", "min", "l2norm")

TAKEN_NAMES = ("graphs", "execution_order", ".dump_metadata", ".tmp")
"""Directories that stand beside the one called `net_name`."""


def net_name(value: object) -> str:
    """The name of the directory that holds the graphs of a network."""
    name = text(value)
    if not name or name in (".", "..") or "/" in name or "\\" in name:
        raise InvalidError(
            'must be a plain directory name, without "/" and "\\", and not "." or ".."'
        )
    if name in TAKEN_NAMES:
        raise InvalidError(f'must not be "{name}": the dump has a directory of that name beside it')
    return file_name(name)


KEYS = (
    SettingKey(COMMON, "dump_mode", one_of(0, 1, 2), 0),
    SettingKey(COMMON, "path", text, ""),
    SettingKey(COMMON, "net_name", net_name, "Net"),
    SettingKey(COMMON, "iteration", Iterations.parse, None),
    SettingKey(COMMON, "initial_iteration", integer(0, MAX_STEP), 0),
    SettingKey(COMMON, "saved_data", one_of("tensor", "statistic", "full"), "tensor"),
    SettingKey(COMMON, "input_output", one_of(0, 1, 2), 0),
    SettingKey(COMMON, "kernels", list_of(KernelPattern.parse), ()),
    SettingKey(COMMON, "support_device", list_of(integer(0)), None),
    SettingKey(COMMON, "statistic_category", list_of(one_of(*STATISTICS)), DEFAULT_STATISTICS),
    SettingKey(COMMON, "op_debug_mode", one_of(0, 1, 2, 3, 4), 0),
    SettingKey(COMMON, "overflow_number", integer(0), 0),
    SettingKey(COMMON, "file_format", one_of("npy", "bin"), "npy"),
    SettingKey(E2E, "enable", boolean, False),
    SettingKey(E2E, "trans_flag", boolean, True),
    SettingKey(E2E, "stat_calc_mode", one_of("host", "device"), None),
    SettingKey(E2E, "device_stat_precision_mode", one_of("high", "low"), "high"),
    SettingKey(E2E, "sample_mode", one_of(0, 1), 0),
    SettingKey(E2E, "sample_num", integer(1), 100),
    SettingKey(E2E, "save_kernel_args", boolean, False),
)
DOTTED = {key.name: key.dotted for key in KEYS}


def report_combinations(reading: CheckedContent) -> None:
    """Report keys that are right by themselves but select nothing together."""
    values = reading.values
    debugs = values.get("op_debug_mode")
    if values.get("dump_mode") == 1 and values.get("kernels") == () and debugs == 0:
        message = "must name at least one operator when dump_mode is 1"
        reading.problem(DOTTED["kernels"], [], message)
    if values.get("support_device") == ():
        message = "selects no device; list at least one, or leave the key out for all"
        reading.problem(DOTTED["support_device"], [], message)
    if values.get("iteration") is None and _has_section(reading, "iteration"):
        if debugs == EXCEPTION:
            values["iteration"] = ALL_STEPS
        else:
            reading.problem(DOTTED["iteration"], MISSING, "is missing; this key is required")
    iterations, first = values.get("iteration"), values.get("initial_iteration")
    if isinstance(iterations, Iterations) and isinstance(first, int) and debugs != EXCEPTION:
        _report_unreachable(reading, iterations, first)


def _has_section(reading: CheckedContent, key: str) -> bool:
    """Tell whether a key could have been given: its section is there, and it is not in it."""
    without = any(problem.key == COMMON for problem in reading.problems)
    return not without and key not in reading.given


def _report_unreachable(reading: CheckedContent, iterations: Iterations, first: int) -> None:
    if iterations.last is not None and iterations.last < first:
        message = f"selects no step: counting starts at initial_iteration = {first}"
        reading.problem(DOTTED["iteration"], iterations.text, message)
