"""Watchpoints on dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import check_paths  # noqa: F401 - makes the next imports work
import numpy as np
import pytest
from made_files import FC, GRADIENT, RELU, MadeFiles

from opscope.analysis.check import Checked
from opscope.analysis.opened import open_for_checks

NAN, INF = np.nan, np.inf


def checked(path: Path, watch: str, **options: Any) -> Checked:
    return open_for_checks(path).check(watch, **options)


def found(result: Checked) -> list[tuple[int, str, str]]:
    return [(h.step, h.parameter or h.about, h.watchpoint.condition.abbr) for h in result.hits]


def reasons(result: Checked) -> dict[str, tuple[str, int]]:
    return {u.watchpoint.condition.abbr: (u.reason, u.count) for u in result.unchecked}


@pytest.fixture
def made(tmp_path: Path) -> MadeFiles:
    return MadeFiles(tmp_path)


def test_values_by_class(made: MadeFiles) -> None:
    made.save(0, FC, [NAN, 1.0], io="input")
    made.save(0, FC, [5.0, INF])
    made.save(0, RELU, [0.0, 0.0])
    made.save(0, GRADIENT, [NAN])
    made.parameter(0, "fc.weight", [NAN])
    result = checked(made.path, "TO; GE; WO; AD steps_ge=1; TZ")
    assert found(result) == [
        (0, "fc_weight", "WO"),
        (0, f"{FC}:0", "TO"),
        (0, f"{RELU}:0", "AD"),
        (0, f"{RELU}:0", "TZ"),
        (0, f"{GRADIENT}:0", "TO"),
        (0, f"{GRADIENT}:0", "GE"),
    ]
    (overflow,) = [h for h in result.hits if h.about == f"{FC}:0"]
    assert (overflow.nan, overflow.posinf, overflow.neginf) == (0, 1, 0)


def test_every_number_is_that_of_the_array(made: MadeFiles) -> None:
    array = np.linspace(-3, 5, 1001, dtype=np.float32)
    made.save(0, FC, array)
    watch = (
        "TL max_gt=4 min_gt=-4 mean_gt=0 abs_mean_gt=0; TZ zero_percentage_ge=0;"
        "TR range_percentage_gt=0 range_start_inclusive=-1 range_end_inclusive=1 max_min_gt=0;"
        "TR range_percentage_lt=100 range_start_inclusive=2"
    )
    large, zero, inside, above = checked(made.path, watch).hits
    wide = array.astype(np.float64)
    assert large.actual == {
        "max_gt": 5.0,
        "min_gt": -3.0,
        "mean_gt": pytest.approx(wide.mean(), rel=1e-12),
        "abs_mean_gt": pytest.approx(np.abs(wide).mean(), rel=1e-12),
    }
    assert zero.actual["zero_percentage_ge"] == pytest.approx(100 * (wide == 0).sum() / 1001)
    share = 100 * np.count_nonzero((wide >= -1) & (wide <= 1)) / 1001
    assert inside.actual == {"range_percentage_gt": pytest.approx(share), "max_min_gt": 8.0}
    share = 100 * np.count_nonzero(wide >= 2) / 1001
    assert above.actual == {"range_percentage_lt": pytest.approx(share)}


def test_changes_are_against_the_step_dumped_before(made: MadeFiles) -> None:
    for step, value in [(0, 1.0), (1, 1.0), (5, 2.0), (6, 2.1)]:
        made.parameter(step, "w", np.full((2, 3), value, np.float32))
        made.parameter(step, "v", np.full(4, 10.0 + step))
    result = checked(made.path, "WNC; WCL")
    assert found(result) == [(1, "w", "WNC"), (5, "v", "WCL"), (5, "w", "WCL")]
    assert "(since step 1); " in result.hits[-1].message
    assert "since" not in result.hits[0].message
    assert result.hits[-1].actual["abs_mean_update_ratio_gt"] == 1 / (1 + 1e-9)
    assert reasons(result)["WNC"] == ("there is no value of an earlier step", 2)


def test_the_step_before_counts_though_it_was_not_asked_for(made: MadeFiles) -> None:
    for step in range(4):
        made.parameter(step, "w", np.ones(3))
    result = checked(made.path, "WNC", steps="2")
    assert found(result) == [(2, "w", "WNC")]
    assert result.unchecked == []


def test_long_chains_and_many_files(made: MadeFiles) -> None:
    for step in range(40):
        made.parameter(step, "w", np.full(2, 2.0**step))
        made.save(step, FC, [float(step)])
    result = checked(made.path, "WCL abs_mean_update_ratio_gt=0.9; TL max_gt=37")
    assert [h.step for h in result.hits if h.watchpoint.id == 1] == list(range(1, 40))
    assert [h.step for h in result.hits if h.watchpoint.id == 2] == [38, 39]


def test_large_files_are_read_by_several_threads(made: MadeFiles) -> None:
    for step in range(3):
        for number in range(4):
            made.parameter(step, f"w{number}", np.full(100_000, step + 1.0, np.float32))
    result = checked(made.path, "WCL; TL class=weight max_gt=2.5")
    assert len(result.hits) == 8 + 4


def test_infinities_and_shapes_that_change(made: MadeFiles) -> None:
    values = {
        "same": ([INF, 1.0], [INF, 1.0]),
        "gone": ([INF, 1.0], [1.0, 1.0]),
        "shape": (np.ones((2, 3)), np.ones((3, 2))),
        "dtype": (np.ones(2, np.float32), np.ones(2, np.float64)),
        "empty": (np.ones(0), np.ones(0)),
    }
    for name, (before, now) in values.items():
        made.parameter(0, name, before)
        made.parameter(1, name, now)
    result = checked(made.path, "WNC; WCL", steps=[1])
    assert found(result) == [(1, "dtype", "WNC"), (1, "gone", "WCL"), (1, "same", "WNC")]
    unchecked = [(u.watchpoint.condition.abbr, u.reason, u.count) for u in result.unchecked]
    for abbr in ("WNC", "WCL"):
        assert (abbr, "its shape is not that of the step before", 1) in unchecked
        assert (abbr, "the tensor is empty", 1) in unchecked


def test_tolerances_are_those_of_each_watchpoint(made: MadeFiles) -> None:
    made.parameter(0, "w", [1.0, NAN])
    made.parameter(1, "w", [1.001, NAN])
    watch = "WNC; WNC rtol=0.01; WNC rtol=0.01 equal_nan=1; WCL abs_mean_update_ratio_gt=0"
    assert [h.watchpoint.id for h in checked(made.path, watch).hits] == [3, 4]


def test_initial_weights_are_those_of_the_first_step(made: MadeFiles) -> None:
    made.parameter(0, "a", np.zeros(2))
    made.parameter(1, "b", np.zeros(2))
    assert found(checked(made.path, "WI")) == [(0, "a", "WI")]
    result = checked(made.path, "WI", steps=[1])
    assert reasons(result) == {"WI": ("the first step is not among those that are checked", 0)}


def test_the_first_step_may_have_another_number(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path, initial_iteration=10)
    made.parameter(10, "a", np.zeros(2))
    assert found(checked(tmp_path, "WI")) == [(10, "a", "WI")]


def test_what_counts_is_no_weight(made: MadeFiles) -> None:
    made.parameter(0, "num_batches_tracked", np.array(0))
    made.parameter(0, "w", np.zeros(2))
    result = checked(made.path, "WI")
    assert found(result) == [(0, "w", "WI")]
    assert "a dump does not tell buffers from parameters" in result.notes[0]


def test_statistics_alone(made: MadeFiles) -> None:
    rows = [(FC, [5.0, INF, NAN]), (RELU, [1.0, 2.0]), ("w", [3.0])]
    made.statistic(0, rows, ["max", "min"])
    made.statistic(1, rows, ["max", "min"])
    result = checked(made.path, "TL max_gt=2; TL mean_gt=0; TO; WNC; TZ", steps=[1])
    assert found(result) == [(1, f"{FC}:0", "TL"), (1, f"{FC}:0", "TO")]
    said = {u.watchpoint.label: (u.reason, u.count) for u in result.unchecked}
    assert said["TL mean_gt=0"][0].startswith("statistic.csv does not have mean,")
    assert said["TO"] == (
        "statistic.csv does not have nan, neginf, posinf, and no tensor was saved",
        1,
    )
    assert said["TZ"][0].startswith("statistic.csv does not have zero,")
    assert said["WNC"] == ("its values were not kept, and statistics alone do not tell", 1)


def test_statistics_with_counts(made: MadeFiles) -> None:
    columns = [
        *("max", "min", "avg", "zero count", "nan count", "positive inf count"),
        *("negative inf count", "negative zero count", "positive zero count"),
    ]
    made.statistic(0, [(FC, [NAN, 1.0]), (RELU, [0.0, 0.0, 4.0]), (GRADIENT, [])], columns)
    watch = (
        "TO; TZ zero_percentage_ge=60; TL mean_gt=1.2;"
        "AR range_percentage_gt=60 range_start_inclusive=-1 range_end_inclusive=0"
    )
    result = checked(made.path, watch)
    assert [(h.about, h.watchpoint.id) for h in result.hits] == [
        (f"{FC}:0", 1),
        (f"{RELU}:0", 2),
        (f"{RELU}:0", 3),
        (f"{RELU}:0", 4),
    ]
    assert {u.reason for u in result.unchecked} == {"the tensor is empty"}


def test_tensors_win_over_statistics(made: MadeFiles) -> None:
    made.save(0, FC, [1.0, NAN])
    made.statistic(0, [(FC, [1.0, NAN])], ["max"])
    result = checked(made.path, "TO; TL abs_mean_gt=0.5")
    assert [h.watchpoint.id for h in result.hits] == [1, 2]
    assert result.unchecked == []


def test_what_cannot_be_read_is_said(made: MadeFiles) -> None:
    path = made.save(0, FC, [NAN])
    made.save(0, RELU, [NAN])
    path.write_bytes(b"nothing")
    result = checked(made.path, "TO")
    assert found(result) == [(0, f"{RELU}:0", "TO")]
    assert reasons(result) == {"TO": ("its file cannot be read", 1)}
    assert any("is damaged" in note for note in result.notes)


def test_what_a_dump_does_not_have_is_said(made: MadeFiles) -> None:
    made.save(0, FC, [1.0])
    result = checked(made.path, "LN; OO; PU; WO; GE; TO node=nothing")
    said = reasons(result)
    assert said["LN"][0] == "a dump has no losses"
    assert "where inputs come from" in said["OO"][0]
    assert said["PU"][0].startswith("only a training that runs")
    assert said["WO"][0].startswith("the dump has no parameters")
    assert said["GE"][0] == said["TO"][0] == "it selects nothing that was dumped"


def test_evaluation_only_when_asked(made: MadeFiles) -> None:
    made.save(0, FC, [NAN], graph=1)
    made.save(0, FC, [1.0])
    assert checked(made.path, "TO").hits == []
    assert len(checked(made.path, "TO", include=["eval"]).hits) == 1


def test_selections_and_muting(made: MadeFiles) -> None:
    for name in (FC, RELU, GRADIENT):
        made.save(0, name, [NAN])
    made.parameter(0, "fc.weight", [NAN])
    for spec, count in [
        ("TO scope=*/fc-Linear", 2),
        ("TO op_type=relu", 1),
        ("TO regex=^Gradients", 1),
        (f"TO mute={RELU}", 2),
        ("WO parameter=fc.*", 1),
        ("WO parameter=other.*", 0),
        ("TO enabled=false", 0),
    ]:
        assert len(checked(made.path, spec).hits) == count, spec


def test_several_ranks_in_the_order_of_steps(tmp_path: Path) -> None:
    for rank in (1, 0):
        made = MadeFiles(tmp_path, rank)
        for step in (0, 1):
            made.save(step, FC, [NAN])
    result = checked(tmp_path, "TO")
    assert [(h.step, h.rank) for h in result.hits] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(h.step, h.rank) for h in checked(tmp_path, "TO", ranks=[1]).hits] == [(0, 1), (1, 1)]


def test_progress_reaches_the_end(made: MadeFiles) -> None:
    for step in range(3):
        made.save(step, FC, [1.0])
    seen: list[tuple[int, int]] = []
    open_for_checks(made.path).check("TO", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)
