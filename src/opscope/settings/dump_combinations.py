"""Keys of a dump config that other keys overrule: what becomes of them, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from opscope.settings.iterations import ALL_STEPS

Values = Mapping[str, Any]
GivenKeys = Set[str]

OVERFLOW, EXCEPTION = 3, 4
"""Values of op_debug_mode: operators that overflow, the operator that raises."""
_KEPT = object()


class Combination(NamedTuple):
    """A key that cannot have its way beside others; `value` is what it becomes, if anything."""

    key: str
    words: str
    applies: Callable[[Values, GivenKeys], bool]
    value: object = _KEPT


def _overflow(values: Values) -> bool:
    return values["op_debug_mode"] in (1, 2, OVERFLOW)


def _exception(values: Values) -> bool:
    return bool(values["op_debug_mode"] == EXCEPTION)


def _debugs(values: Values) -> bool:
    return bool(values["op_debug_mode"])


COMBINATIONS = (
    Combination(
        "op_debug_mode",
        "1 and 2 act as 3: every operator whose output holds NaN or Inf is dumped",
        lambda values, given: values["op_debug_mode"] in (1, 2),
        OVERFLOW,
    ),
    Combination(
        "input_output",
        "is taken as 0 with op_debug_mode 3, which saves inputs and outputs",
        lambda values, given: _overflow(values) and values["input_output"] != 0,
        0,
    ),
    Combination(
        "input_output",
        "is taken as 1 with op_debug_mode 4, which saves inputs only",
        lambda values, given: (
            _exception(values) and values["input_output"] != 1 and "input_output" in given
        ),
        1,
    ),
    Combination(
        "iteration",
        "has no effect with op_debug_mode 4, which looks at every step",
        lambda values, given: _exception(values) and not values["iteration"].all,
        ALL_STEPS,
    ),
    Combination(
        "dump_mode",
        "has no effect unless op_debug_mode is 0: every operator is looked at",
        lambda values, given: _debugs(values) and values["dump_mode"] != 0,
        0,
    ),
    Combination(
        "stat_calc_mode",
        'is taken as "host" unless op_debug_mode is 0',
        lambda values, given: _debugs(values) and values["stat_calc_mode"] == "device",
        "host",
    ),
    Combination(
        "overflow_number",
        "has no effect unless op_debug_mode is 3",
        lambda values, given: values["overflow_number"] != 0 and not _overflow(values),
    ),
    Combination(
        "kernels",
        "has no effect with dump_mode 0, which dumps every operator",
        lambda values, given: bool(values["kernels"]) and values["dump_mode"] == 0,
    ),
    Combination(
        "kernels",
        "has no effect with dump_mode 2, which dumps what set_dump marks",
        lambda values, given: bool(values["kernels"]) and values["dump_mode"] == 2,
    ),
    Combination(
        "statistic_category",
        'has no effect with saved_data "tensor"',
        lambda values, given: "statistic_category" in given and values["saved_data"] == "tensor",
    ),
    Combination(
        "file_format",
        'has no effect with saved_data "statistic", which saves no tensors',
        lambda values, given: values["file_format"] == "bin" and _saves_no_tensors(values),
    ),
    Combination(
        "trans_flag",
        'has no effect with saved_data "statistic", which saves no tensors',
        lambda values, given: not values["trans_flag"] and _saves_no_tensors(values),
    ),
    Combination(
        "sample_mode",
        'has no effect with saved_data "statistic", which saves no tensors',
        lambda values, given: values["sample_mode"] == 1 and _saves_no_tensors(values),
    ),
    Combination(
        "sample_num",
        "has no effect with sample_mode 0",
        lambda values, given: "sample_num" in given and values["sample_mode"] == 0,
    ),
    Combination(
        "device_stat_precision_mode",
        'has no effect with stat_calc_mode "host"',
        lambda values, given: (
            values["device_stat_precision_mode"] == "low" and values["stat_calc_mode"] == "host"
        ),
    ),
)


def _saves_no_tensors(values: Values) -> bool:
    return bool(values["saved_data"] == "statistic")


def settle(values: Values, given: GivenKeys) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values as they take effect together, and of each overruled key what to say."""
    settled, said = dict(values), []
    for key, words, applies, value in COMBINATIONS:
        if applies(values, given):
            said.append((key, words))
            if value is not _KEPT:
                settled[key] = value
    if _exception(values):
        settled["input_output"] = 1
    return settled, said
