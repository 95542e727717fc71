"""Watchpoints on runs: on their statistics, losses and what they recorded themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import check_paths  # noqa: F401 - makes the next imports work
import numpy as np
import pytest
from made_run import MadeRun, row, write_run

from opscope.analysis.check import Checked
from opscope.analysis.opened import open_for_checks
from opscope.analysis.row_evidence import in_range_by_rows, surely_changed
from opscope.calls import Calls, note_sources
from opscope.errors import OpscopeError
from opscope.events import IO, Call, Node, Output, Outside, StepRecord, ValueStats
from opscope.judge.parsing import make
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, write_numbers

NAN, INF = math.nan, math.inf


def checked(path: Path, watch: str, **options: Any) -> Checked:
    return open_for_checks(path).check(watch, **options)


def reasons(result: Checked) -> dict[str, tuple[str, int]]:
    return {u.watchpoint.condition.abbr: (u.reason, u.count) for u in result.unchecked}


class Run(MadeRun):
    """A run whose rows are those of arrays."""

    def values(self, step: int, arrays: dict[tuple[Node, IO, int], Any]) -> None:
        """One step with these values; the place of a node is its call."""
        self.writer.step_begin(step)
        for node in self.nodes:
            if node.id not in self._called:
                self._called.add(node.id)
                node.variants = [node.sources]
                self.writer.node(node)
            for (owner, io, slot), value in arrays.items():
                if owner is node:
                    array = np.asarray(value)
                    call = Call(node, step, node.id, 0, 0)
                    stats = ValueStats(call, io, slot, str(array.dtype), array.shape, row_of(array))
                    self.rows.deliver([stats])
        self.writer.step_end(StepRecord(step, Calls(list(self.nodes)), [], 0.1))


@pytest.fixture
def made(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run").open()
    assert isinstance(run, Run)
    return run


def weight(run: Run, value: Any) -> dict[tuple[Node, IO, int], Any]:
    """A parameter, in forward and as the optimizer has it later."""
    return {(run.linear, IO.INPUT, 0): value, (run.update, IO.INPUT, 0): np.full(2, 1e9)}


def test_outputs_by_class(made: Run, tmp_path: Path) -> None:
    out = IO.OUTPUT
    made.values(0, {(made.linear, out, 0): [1.0, NAN], (made.backward, out, 0): [INF]})
    made.values(1, {(made.linear, out, 0): [1.0, 2.0], (made.backward, out, 0): [0.0]})
    made.writer.close()
    result = checked(tmp_path / "run", "TO; GE; TZ; TL max_gt=1.5")
    found = [(h.step, h.about, h.watchpoint.condition.abbr) for h in result.hits]
    linear, backward = f"{made.linear.name}:0", f"{made.backward.name}:0"
    assert found == [
        (0, linear, "TO"),
        (0, backward, "TO"),
        (0, backward, "GE"),
        (0, backward, "TL"),
        (1, linear, "TL"),
        (1, backward, "TZ"),
    ]
    assert result.hits[0].where == "train.py:1"
    assert result.unchecked == []


def test_weights_are_parameters_at_their_first_use(made: Run, tmp_path: Path) -> None:
    made.values(0, weight(made, [0.0, 0.0]))
    made.values(1, weight(made, [0.0, 0.0]))
    made.writer.close()
    result = checked(tmp_path / "run", "WI; WL max_gt=1e8; WS max_lt=0.5")
    assert [(h.step, h.watchpoint.condition.abbr, h.parameter) for h in result.hits] == [
        (0, "WI", "fc.weight"),
        (0, "WS", "fc.weight"),
        (1, "WS", "fc.weight"),
    ]
    assert result.hits[0].io is IO.INPUT
    assert result.hits[0].node is not None and result.hits[0].node.name == made.linear.name


def test_inputs_that_are_a_parameter_only_for_a_while(made: Run, tmp_path: Path) -> None:
    values = {(made.linear, IO.INPUT, 0): [NAN]}
    made.values(0, values)
    made.linear.sources = [Outside("batch", "x"), Outside("batch", "x")]
    made.writer.step_begin(1)
    call = Call(made.linear, 1, 0, 0, 0)
    made.rows.deliver([ValueStats(call, IO.INPUT, 0, "float32", (1,), row(nan=1))])
    calls = Calls(list(made.nodes))
    note_sources(calls, 0, made.linear, made.linear.sources)
    made.writer.step_end(StepRecord(1, calls, [], 0.1))
    made.writer.close()
    result = checked(tmp_path / "run", "WO; OO arriving=true")
    assert [(h.step, h.watchpoint.condition.abbr) for h in result.hits] == [(0, "WO"), (0, "OO")]
    assert result.hits[1].message.endswith("came in with the parameter fc.weight")


def test_initial_weights_need_the_first_step(made: Run, tmp_path: Path) -> None:
    made.values(3, weight(made, [0.0]))
    made.writer.close()
    result = checked(tmp_path / "run", "WI")
    assert result.hits == []
    assert reasons(result)["WI"] == ("step 0 is not among those that are checked", 0)


def test_changes_need_the_tensors(made: Run, tmp_path: Path) -> None:
    for step, value in enumerate([1.0, 1.0, 2.0]):
        made.values(step, weight(made, [value, value]))
    made.values(3, weight(made, [[2.0], [2.0]]))
    made.writer.close()
    result = checked(tmp_path / "run", "WNC; WCL")
    assert result.hits == []
    said = sorted((u.watchpoint.condition.abbr, u.reason, u.count) for u in result.unchecked)
    unknown = "its values were not kept, and statistics alone do not tell"
    assert said == [
        ("WCL", "its shape is not that of the step before", 1),
        ("WCL", unknown, 2),
        ("WCL", "there is no value of an earlier step", 1),
        ("WNC", "its shape is not that of the step before", 1),
        ("WNC", unknown, 1),  # the step in which it doubled is known to be a change
        ("WNC", "there is no value of an earlier step", 1),
    ]


def test_ranges_where_rows_tell(made: Run, tmp_path: Path) -> None:
    made.values(0, {(made.linear, IO.OUTPUT, 0): [0.0, 0.0, 3.0]})
    made.values(1, {(made.linear, IO.OUTPUT, 0): [0.5, 0.5, 0.9]})
    made.values(2, {(made.linear, IO.OUTPUT, 0): [0.5, 7.0]})
    made.writer.close()
    watch = "TR range_percentage_gt=60 range_start_inclusive={} range_end_inclusive={}"
    result = checked(tmp_path / "run", watch.format(-1, 0))
    assert [h.step for h in result.hits] == [0]
    result = checked(tmp_path / "run", watch.format(0, 1))
    assert [h.step for h in result.hits] == [1]
    assert reasons(result)["TR"][1] == 2


def test_losses(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run").open()
    for step in range(30):
        made.step(step, 1e6 if step == 27 else NAN if step == 29 else 1.0)
    made.writer.close()
    result = checked(tmp_path / "run", "LN; LS")
    assert [(h.step, h.watchpoint.condition.abbr) for h in result.hits] == [(27, "LS"), (29, "LN")]
    assert result.hits[1].node is not None and result.hits[1].node.op_type == "mse_loss"
    assert [h.step for h in checked(tmp_path / "run", "LN; LS", steps="27").hits] == [27]


def test_parameters_that_never_change(made: Run, tmp_path: Path) -> None:
    made.backward.gradient_of = "fc.weight"
    for step in range(25):
        made.values(step, weight(made, [1.0, 2.0]))
    made.writer.close()
    (hit,) = checked(tmp_path / "run", "PU").hits
    assert (hit.parameter, hit.step) == ("fc.weight", 20)
    assert checked(tmp_path / "run", "PU steps_ge=25").hits == []
    assert checked(tmp_path / "run", "PU", steps="21-24").hits == [], "it is told of once"
    with pytest.raises(OpscopeError, match="none of the steps 900 is recorded: there are 0 to"):
        checked(tmp_path / "run", "PU", steps="900")


def write_facts(run: Path, *lines: dict[str, Any]) -> None:
    """What a training that was watched would have noted."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "rank_0/facts.jsonl").write_text(text)


FROZEN, HAS_GRADIENT, OWNED, STEPPING = 1, 2, 4, 8


def test_what_was_noted_of_parameters_counts(made: Run, tmp_path: Path) -> None:
    made.backward.gradient_of = "fc.weight"
    for step in range(25):
        made.values(step, weight(made, [1.0 + step, 2.0]))
    made.writer.close()
    lost = [["fc.weight", HAS_GRADIENT], ["fc.bias", OWNED | STEPPING]]
    said: list[dict[str, Any]] = [{"step": 0, "parameters": lost}]
    write_facts(tmp_path / "run", *said, *({"step": step, "like": 0} for step in range(1, 25)))
    found = {h.watchpoint.condition.abbr: h for h in checked(tmp_path / "run", "PO; PG; PU").hits}
    assert {abbr: (h.parameter, h.step) for abbr, h in found.items()} == {
        "PO": ("fc.weight", 4),
        "PG": ("fc.bias", 19),
    }
    still = [["fc.weight", FROZEN | OWNED | STEPPING]]
    write_facts(tmp_path / "run", *({"step": step, "parameters": still} for step in range(25)))
    (hit,) = checked(tmp_path / "run", "FC").hits
    assert (hit.parameter, hit.step) == ("fc.weight", 1)


def test_damaged_facts_are_left_out(made: Run, tmp_path: Path, capsys: Any) -> None:
    made.values(0, weight(made, [1.0]))
    made.writer.close()
    write_facts(
        tmp_path / "run",
        {"step": 0, "like": 7},
        {"step": 0, "parameters": [["w", 99]]},
        {"step": 0, "parameters": [3]},
        {"step": 0, "bad_inputs": [[]]},
        {"step": 0, "bad_inputs": [["x", 1]]},
        {"step": 0},
    )
    assert reasons(checked(tmp_path / "run", "PO"))["PO"][0].startswith("the run does not say")
    assert capsys.readouterr().err.count("left out") >= 3


def test_inputs_that_only_the_training_saw(made: Run, tmp_path: Path) -> None:
    out = IO.OUTPUT
    made.linear.sources = [Outside("parameter", "fc.weight", "fc.weight")]
    made.values(0, {(made.linear, IO.INPUT, 0): [1.0], (made.linear, out, 0): [NAN]})
    made.writer.close()
    (hit,) = checked(tmp_path / "run", "OO").hits
    assert "turns sound inputs into" in hit.message
    write_facts(tmp_path / "run", {"step": 0, "bad_inputs": [[made.linear.id, 0]]})
    (hit,) = checked(tmp_path / "run", "OO").hits
    assert "came in with the parameter fc.weight" in hit.message


def test_where_nan_begins(made: Run, tmp_path: Path) -> None:
    out = IO.OUTPUT
    bad = {(made.loss, out, 0): [NAN], (made.backward, out, 0): [NAN]}
    made.loss.outputs = [Output(made.loss, 0)]
    made.backward.forward = made.loss
    made.values(0, {(made.linear, out, 0): [1.0]})
    made.values(1, {(made.linear, out, 0): [1.0], **bad})
    made.writer.close()
    result = checked(tmp_path / "run", "OO")
    assert [(h.step, h.node.name if h.node else "") for h in result.hits] == [(1, made.loss.name)]
    assert "sound inputs into 1 NaN of 1" in result.hits[0].message


def test_hits_that_only_the_run_could_find(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    line = {
        "step": 1,
        "rank": 0,
        "condition": "FC",
        "message": "added",
        "node": 2,
        "io": "output",
        "actual": {"steps_ge": 3},
    }
    (tmp_path / "run/rank_0/hits.jsonl").write_text(json.dumps(line) + "\n")
    result = checked(tmp_path / "run", "FC; PO")
    (hit,) = result.hits
    assert (hit.step, hit.message, hit.node.id if hit.node else None) == (1, "added", 2)
    assert reasons(result)["PO"][0].startswith("the run does not say what training did")


def test_lines_with_the_comment_are_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("y = model(x)  # opscope: ignore\n")
    made = Run(tmp_path / "run", source=str(source)).open()
    assert isinstance(made, Run)
    made.values(0, {(made.linear, IO.OUTPUT, 0): [NAN]})
    made.writer.close()
    result = checked(tmp_path / "run", "TO")
    assert result.hits == []


def test_selections(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=1)
    for spec, count in [
        ("TL max_gt=1", 4),
        ("TL max_gt=1 op_type=addmm", 2),
        ("TL max_gt=1 line=train.py:1", 3),
        ("TL max_gt=1 line=train.py:2", 0),
        ("TL max_gt=1 parameter=fc.*", 1),
        ("TL max_gt=1 mute=train.py", 1),
        ("WL max_gt=1 parameter=fc.*", 1),
        ("GL max_gt=1", 1),
    ]:
        assert len(checked(tmp_path / "run", spec).hits) == count, spec


def test_a_run_that_was_killed_or_lost_rows_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    end = tmp_path / "run/rank_0/end.json"
    end.write_text(json.dumps({**json.loads(end.read_text()), "dropped_rows": 7}))
    broken = tmp_path / "run/rank_0/incomplete.json"
    broken.write_text(json.dumps({"after": 1, "why": "disk full"}))
    notes = checked(tmp_path / "run", "TO").notes
    assert notes[0].startswith("rank 0 dropped 7 of its oldest rows")
    assert notes[1] == "rank 0 stopped writing early: disk full"
    end.unlink()
    broken.unlink()
    assert checked(tmp_path / "run", "TO").notes == ["rank 0 ended without saying so"]


def test_ranks_and_steps_can_be_chosen(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_run(tmp_path / "run", rank, world_size=2)
    result = checked(tmp_path / "run", "TL max_gt=1 op_type=mse_loss", steps="1-2", ranks=[1])
    assert [(h.step, h.rank) for h in result.hits] == [(1, 1), (2, 1)]


def records_of(*arrays: Any) -> Any:
    buffer = bytearray(ROW_BYTES * len(arrays))
    for place, array in enumerate(arrays):
        write_numbers(buffer, place * ROW_BYTES, row_of(np.asarray(array)))
    records = np.frombuffer(buffer, ROW_DTYPE).copy()
    records["step"] = np.arange(len(arrays))
    return records


@pytest.mark.parametrize("seed", range(20))
def test_what_rows_say_of_ranges_is_true(seed: int) -> None:
    generator = np.random.default_rng(seed)
    arrays = []
    for _ in range(50):
        array = generator.integers(-4, 5, generator.integers(0, 6)) / 2
        array[generator.random(array.size) < 0.1] = NAN
        array[generator.random(array.size) < 0.1] = INF
        arrays.append(array)
    for low, high in [(-1, 1), (0, 1), (-1, 0), (0, 0), (-9, 9), (3, 4), (-INF, 0.5)]:
        inside, known = in_range_by_rows(records_of(*arrays), (low, high))
        assert known.any()
        for array, count, is_known in zip(arrays, inside, known, strict=True):
            if is_known:
                assert count == np.count_nonzero((array >= low) & (array <= high))


@pytest.mark.parametrize("seed", range(40))
def test_a_change_that_rows_tell_of_is_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    params = {"rtol": float(generator.choice([0, 1e-5, 0.1, 0.5])), "atol": 1e-8}
    watchpoint = make("WNC", **params)
    before = generator.standard_normal(20).astype(np.float32)
    wide = before.astype(np.float64)
    room = params["atol"] + params["rtol"] * np.abs(wide)
    within = wide + 0.999 * room * generator.choice([-1, 1], 20)
    far = wide + 3 * (0.01 + params["rtol"])
    for now, may_be in [(within, False), (far, True), (wide, False)]:
        changed = surely_changed(records_of(now), records_of(wide), watchpoint)
        assert may_be or not changed[0], params
