"""Every combination of keys in which one overrules another: what takes effect, and what is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from opscope.settings.dump import load_dump_settings
from opscope.settings.dump_combinations import COMBINATIONS
from opscope.settings.dump_keys import DOTTED, E2E
from opscope.settings.iterations import ALL_STEPS, Iterations

WriteConfig = Callable[..., str]
DOCS = Path(__file__).parents[3] / "docs"


class Case(NamedTuple):
    """Keys as they are given, as they take effect, and of which keys something is said."""

    given: dict[str, Any]
    effect: dict[str, Any]
    said: list[str]


OVERRULED = [
    Case({"op_debug_mode": 1}, {"op_debug_mode": 3}, ["op_debug_mode"]),
    Case({"op_debug_mode": 2}, {"op_debug_mode": 3}, ["op_debug_mode"]),
    Case({"op_debug_mode": 3, "input_output": 1}, {"input_output": 0}, ["input_output"]),
    Case({"op_debug_mode": 3, "input_output": 2}, {"input_output": 0}, ["input_output"]),
    Case({"op_debug_mode": 4}, {"input_output": 1, "iterations": ALL_STEPS}, ["iteration"]),
    Case(
        {"op_debug_mode": 4, "iteration": "all", "input_output": 0},
        {"input_output": 1},
        ["input_output"],
    ),
    Case(
        {"op_debug_mode": 4, "iteration": "3", "initial_iteration": 7},
        {"iterations": ALL_STEPS, "initial_iteration": 7},
        ["iteration"],
    ),
    Case(
        {"op_debug_mode": 3, "dump_mode": 1, "kernels": ["conv"]}, {"dump_mode": 0}, ["dump_mode"]
    ),
    Case({"op_debug_mode": 3, "dump_mode": 1}, {"dump_mode": 0}, ["dump_mode"]),
    Case({"op_debug_mode": 3, "dump_mode": 2}, {"dump_mode": 0}, ["dump_mode"]),
    Case({"op_debug_mode": 4, "iteration": "all", "dump_mode": 2}, {"dump_mode": 0}, ["dump_mode"]),
    Case(
        {"op_debug_mode": 3, "saved_data": "full", "stat_calc_mode": "device"},
        {"stat_calc_mode": "host"},
        ["stat_calc_mode"],
    ),
    Case({"overflow_number": 3}, {}, ["overflow_number"]),
    Case({"op_debug_mode": 4, "iteration": "all", "overflow_number": 3}, {}, ["overflow_number"]),
    Case({"kernels": ["conv"]}, {}, ["kernels"]),
    Case({"kernels": ["conv"], "dump_mode": 2}, {"dump_mode": 2}, ["kernels"]),
    Case({"statistic_category": ["max"]}, {}, ["statistic_category"]),
    Case({"file_format": "bin", "saved_data": "statistic"}, {}, ["file_format"]),
    Case({"trans_flag": False, "saved_data": "statistic"}, {}, ["trans_flag"]),
    Case({"sample_mode": 1, "saved_data": "statistic"}, {}, ["sample_mode"]),
    Case({"sample_num": 7}, {}, ["sample_num"]),
    Case(
        {"stat_calc_mode": "host", "device_stat_precision_mode": "low", "saved_data": "full"},
        {},
        ["device_stat_precision_mode"],
    ),
]

LIFTED = [
    # What the guides forbid without a reason that holds here.
    {"op_debug_mode": 3, "saved_data": "statistic"},
    {"op_debug_mode": 3, "saved_data": "full"},
    {"op_debug_mode": 3, "sample_mode": 1, "sample_num": 10},
    {"op_debug_mode": 3, "iteration": "5-8"},
    {"op_debug_mode": 3, "overflow_number": 2},
    {"op_debug_mode": 4, "iteration": "all", "input_output": 1, "saved_data": "full"},
    {"op_debug_mode": 4, "iteration": "all", "sample_mode": 1},
    {"file_format": "bin", "saved_data": "full"},
    {"save_kernel_args": True, "enable": False},
    {"dump_mode": 1, "kernels": ["conv"], "saved_data": "full", "sample_mode": 1},
    {"dump_mode": 2, "saved_data": "statistic"},
    {"statistic_category": ["md5", "max"], "saved_data": "full"},
    {"stat_calc_mode": "device", "statistic_category": ["nan count"], "saved_data": "full"},
]


def load(write_config: WriteConfig, given: dict[str, Any]) -> Any:
    e2e = {key: value for key, value in given.items() if DOTTED[key].startswith(E2E)}
    common = {key: value for key, value in given.items() if key not in e2e}
    return load_dump_settings(write_config(common, e2e), {})


@pytest.mark.parametrize("case", OVERRULED, ids=lambda case: str(case.given))
def test_overruled(write_config: WriteConfig, case: Case) -> None:
    settings = load(write_config, case.given)
    assert {key: getattr(settings, key) for key in case.effect} == case.effect
    said = [re.search(r": \w+\.(\w+) ", notice).group(1) for notice in settings.notices]  # type: ignore[union-attr]
    assert said == case.said


@pytest.mark.parametrize("given", LIFTED, ids=str)
def test_lifted(write_config: WriteConfig, given: dict[str, Any]) -> None:
    settings = load(write_config, given)
    assert settings.notices == ()
    for key, value in given.items():
        if key == "iteration":
            assert settings.iterations == Iterations.parse(value)
        elif key != "kernels":
            wanted = tuple(value) if isinstance(value, list) else value
            assert getattr(settings, key) == wanted


def test_every_rule_of_the_code_has_a_case(write_config: WriteConfig) -> None:
    said = {
        notice.partition(": ")[2]
        for c in OVERRULED
        for notice in load(write_config, c.given).notices
    }
    assert {f"{DOTTED[key]} {words}" for key, words, *_ in COMBINATIONS} == said


def test_every_rule_of_the_code_is_in_the_docs() -> None:
    text = " ".join((DOCS / "dump.md").read_text().split())
    for key, words, *_ in COMBINATIONS:
        assert f"| `{key}` | {words} |" in text, (key, words)


def test_useless_outputs_are_a_matter_of_the_environment(write_config: WriteConfig) -> None:
    file = write_config()
    variable = "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT"
    assert load_dump_settings(file, {}).ignores_useless_outputs
    assert load_dump_settings(file, {variable: "1"}).ignores_useless_outputs
    assert not load_dump_settings(file, {variable: "0"}).ignores_useless_outputs
