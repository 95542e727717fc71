"""The catalogue against the table of the seed, and its limits."""

from __future__ import annotations

import math

import pytest

from opscope.judge.catalogue import BY_NAME, CONDITIONS, NONFINITE
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.recommended import QUICK, recommended

LARGE = ("abs_mean_gt", "max_gt", "min_gt", "mean_gt")
SMALL = ("abs_mean_lt", "max_lt", "min_lt", "mean_lt")
RANGE = ("range_percentage_lt", "range_percentage_gt", "max_min_lt", "max_min_gt")
SEED = {
    "TO": ("tensor_overflow", "tensor", (), {}),
    "OO": ("operator_overflow", "tensor", (), {}),
    "TZ": ("tensor_all_zero", "tensor", ("zero_percentage_ge",), {"zero_percentage_ge": 100}),
    "TR": ("tensor_range", "tensor", RANGE, {}),
    "TL": ("tensor_too_large", "tensor", LARGE, {}),
    "TS": ("tensor_too_small", "tensor", SMALL, {}),
    "WI": (
        "weight_initialization",
        "weight",
        ("zero_percentage_ge", "max_gt", "min_lt"),
        {"zero_percentage_ge": 100},
    ),
    "WO": ("weight_overflow", "weight", (), {}),
    "WL": ("weight_too_large", "weight", LARGE, {}),
    "WS": ("weight_too_small", "weight", SMALL, {}),
    "WNC": (
        "weight_not_changed",
        "weight",
        ("rtol",),
        {"rtol": 1e-5, "atol": 1e-8, "equal_nan": 0.0},
    ),
    "WCL": (
        "weight_change_too_large",
        "weight",
        ("abs_mean_update_ratio_gt",),
        {"abs_mean_update_ratio_gt": 0.1, "epsilon": 1e-9},
    ),
    "WCS": (
        "weight_change_too_small",
        "weight",
        ("abs_mean_update_ratio_lt",),
        {"abs_mean_update_ratio_lt": 1e-4, "epsilon": 1e-9},
    ),
    "AR": ("activation_range", "activation", RANGE, {}),
    "GE": ("gradient_exploding", "gradient", (), {}),
    "GL": ("gradient_too_large", "gradient", LARGE, {}),
    "GV": ("gradient_vanishing", "gradient", SMALL, {}),
}
"""abbr → id, target class, check parameters, defaults with the hidden ones: §1.1 of the seed."""


@pytest.mark.parametrize("abbr", SEED)
def test_conditions_of_the_seed(abbr: str) -> None:
    condition = BY_NAME[abbr]
    found = (
        condition.id,
        condition.target,
        tuple(parameter.name for parameter in condition.thresholds),
        condition.defaults,
    )
    assert found == SEED[abbr]
    assert BY_NAME[condition.id] is condition


def test_names_are_unique_and_said() -> None:
    assert len(BY_NAME) == 2 * len(CONDITIONS)
    assert all(condition.summary for condition in CONDITIONS)
    assert all(c.check or c.target == TRAINING or c.abbr in ("OO", "AS", "EX") for c in CONDITIONS)


def test_what_is_about_nan_and_inf() -> None:
    assert {"TO", "OO", "WO", "GE", "LN"} == NONFINITE


def test_what_conditions_need() -> None:
    assert {c.abbr for c in CONDITIONS if c.needs_change} == {"WNC", "WCL", "WCS"}
    assert {c.abbr for c in CONDITIONS if c.needs_range} == {"TR", "AR"}
    assert {c.abbr for c in CONDITIONS if c.first_step_only} == {"WI"}


@pytest.mark.parametrize(
    ("condition", "name", "good", "bad"),
    [
        ("TZ", "zero_percentage_ge", [0, 50, 100], [-0.1, 100.1, 500]),
        ("TR", "range_percentage_lt", [0, 100], [-1, 101]),
        ("TR", "max_min_lt", [1e-300, 5], [0, -1]),
        ("TR", "max_min_gt", [0, 5], [-1e-9]),
        ("TL", "abs_mean_gt", [0, 1], [-1]),
        ("TL", "max_gt", [-1e30, 0, 1e30], []),
        ("WNC", "rtol", [0, 1], [-1]),
        ("WNC", "equal_nan", [0, 1], [0.5, 2]),
        ("WCL", "abs_mean_update_ratio_gt", [0, 1], [-1]),
        ("WCL", "epsilon", [0, 1], [-1]),
    ],
)
def test_limits(condition: str, name: str, good: list[float], bad: list[float]) -> None:
    (parameter,) = [p for p in BY_NAME[condition].parameters if p.name == name]
    assert all(parameter.allows(value) for value in good)
    assert not any(parameter.allows(value) for value in [*bad, math.nan, math.inf, -math.inf])
    assert parameter.allowed


def test_defaults_are_allowed() -> None:
    def allowed(condition: Condition) -> bool:
        known = {p.name: p for p in condition.parameters}
        return all(known[name].allows(value) for name, value in condition.defaults.items())

    assert all(allowed(condition) for condition in CONDITIONS)


def test_the_recommended_set() -> None:
    full, quick = recommended(), recommended(quick=True)
    assert [w.condition.abbr for w in quick] == list(QUICK)
    assert set(QUICK) <= {w.condition.abbr for w in full}
    assert len({w.id for w in full}) == len(full)
    assert all(w.enabled and w.condition.nonfinite for w in quick)
