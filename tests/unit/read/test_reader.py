"""`opscope.open`: runs and dumps through one interface."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_files import FC, RELU, MadeFiles
from made_run import SCRIPT, write_run

import opscope
from opscope.errors import OpscopeError
from opscope.events import IO, Outside
from opscope.judge.parsing import make
from opscope.judge.watch_set import load
from opscope.read.reader import Reader


@pytest.fixture
def run(tmp_path: Path) -> Reader:
    source = tmp_path / "train.py"
    source.write_text(SCRIPT)
    for rank in (0, 1):
        write_run(tmp_path / "run", rank, source=str(source), world_size=2)
    return opscope.open(tmp_path / "run")


@pytest.fixture
def dump(tmp_path: Path) -> Reader:
    made = MadeFiles(tmp_path / "dump")
    made.save(2, FC, np.array([1.0, 3.0], np.float32), dtype="bfloat16")
    made.save(2, FC, np.zeros(2), io="input")
    made.statistic(4, [(RELU, [1.0, 2.0])], ["max"])
    return opscope.open(str(tmp_path / "dump"))


def test_ranks_and_steps(run: Reader, dump: Reader) -> None:
    assert (run.is_run, run.ranks, run.steps) == (True, [0, 1], [0, 1, 2])
    assert (dump.is_run, dump.ranks, dump.steps) == (False, [0], [2, 4])
    assert "ranks [0, 1], 3 steps" in repr(run)
    with pytest.raises(OpscopeError, match="has no rank 7; it has: 0, 1"):
        run.steps_of(7)


@pytest.mark.parametrize(
    ("query", "options", "count"),
    [
        ("", {}, 4),
        ("addmm", {}, 2),
        ("ADDMM", {}, 0),
        (r"addmm-op\d$", {"regex": True}, 2),
        ("train.py:1", {"by": "line"}, 3),
        ("train.py:2", {"by": "line"}, 0),
        (r"train\.py:[12]$", {"by": "line", "regex": True}, 3),
        ("criterion", {"by": "code"}, 3),
        (r"criterion\(model", {"by": "code", "regex": True}, 3),
        ("mse*", {"by": "op_type"}, 1),
        ("*/fc-Linear", {"by": "scope"}, 2),
        ("fc.*", {"by": "parameter"}, 1),
    ],
)
def test_nodes(run: Reader, query: str, options: dict[str, object], count: int) -> None:
    found = run.select_nodes(query, ranks=[1], **options)  # type: ignore[arg-type]
    assert len(found) == count
    assert all(run.rank_of(node) == 1 for node in found)
    assert len(run.select_nodes(query, **options)) == 2 * count  # type: ignore[arg-type]


def test_wrong_questions(
    run: Reader, dump: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no runs
    with pytest.raises(OpscopeError, match="must be one of name, line"):
        run.select_nodes("x", by="stack")
    with pytest.raises(OpscopeError, match="is no regular expression"):
        run.select_nodes("(", regex=True)
    with pytest.raises(OpscopeError, match="a dump has no source lines"):
        dump.select_nodes("train.py", by="line")
    with pytest.raises(OpscopeError, match="does not say where inputs come from"):
        dump.inputs(dump.select_nodes(FC)[0])
    with pytest.raises(OpscopeError, match="is not a node of"):
        run.inputs(dump.select_nodes(FC)[0])
    with pytest.raises(OpscopeError, match=r"is neither a run .* nor a dump"):
        opscope.open(tmp_path)
    with pytest.raises(OpscopeError, match="no such path"):
        opscope.open(tmp_path / "nothing")
    with pytest.raises(OpscopeError, match="counts down"):
        run.check("TO", steps="3-1")


def test_inputs_and_consumers(run: Reader) -> None:
    linear, loss, backward, update = run.select_nodes(ranks=[0])
    assert run.inputs(linear)[0] == Outside("parameter", "fc.weight", "fc.weight")
    assert run.inputs(loss) == [linear.outputs[0]]
    assert [(c.node, c.slot, c.of) for c in run.consumers(linear)] == [(loss, 0, 0)]
    assert [(c.node, c.slot) for c in run.consumers(backward)] == [(update, 1)]
    assert run.consumers(update) == []


def test_values_of_a_run(run: Reader) -> None:
    values = run.select_values("mse_loss", steps=[1, 2], ranks=[0])
    assert [(v.step, v.io, v.slot, v.dtype, v.shape) for v in values] == [
        (1, IO.OUTPUT, 0, "float32", (2, 3)),
        (2, IO.OUTPUT, 0, "float32", (2, 3)),
    ]
    assert values[0].stats().mean == 101
    assert values[0].name == "Default/mse_loss-op0:0"
    assert not values[0].is_saved
    with pytest.raises(OpscopeError, match="were not saved"):
        values[0].array()
    assert len(run.select_values("fc-Linear/addmm", io="input", ranks=[0])) == 3
    assert run.select_values("addmm", slots=[5]) == []


def test_values_of_a_dump(dump: Reader) -> None:
    (value,) = dump.select_values("addmm", io="output")
    assert (value.dtype, value.is_saved) == ("bfloat16", True)
    assert value.array().tolist() == [1.0, 3.0]
    assert value.stats().mean == 2.0
    (value,) = dump.select_values("relu")
    assert value.stats().max == 2.0
    assert np.isnan(value.stats().mean)
    assert (value.shape, value.is_saved) == ((2,), False)


def test_checks_take_any_form_of_watchpoints(run: Reader) -> None:
    counts = {
        len(run.check(watch, ranks=[0], steps=[0]).hits)
        for watch in ("TL max_gt=1", load("TL max_gt=1"), make("TL", max_gt=1))
    }
    assert counts == {4}
    assert len(run.check([make("TL", max_gt=1), make("GL", max_gt=1)], steps=[0]).hits) == 10


def test_nothing_here_loads_torch(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path / "dump")
    made.save(0, FC, np.ones(3))
    write_run(tmp_path / "run")
    code = (
        "import sys, opscope\n"
        "for path in sys.argv[1:]:\n"
        "    opened = opscope.open(path)\n"
        "    opened.check('recommended; TO; WCL; TL max_gt=0')\n"
        "    [v.stats() for v in opened.select_values()]\n"
        "print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "dump"), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_page_of_the_nodes_that_match(run: Reader) -> None:
    everything = run.select_nodes()
    assert run.select_nodes(first=1, count=2) == everything[1:3]
    assert run.select_nodes(first=6) == everything[6:]
    assert run.select_nodes("addmm", first=1, count=10) == run.select_nodes("addmm")[1:]
    assert run.select_nodes(count=0) == []


def test_one_value_over_the_steps(run: Reader, dump: Reader) -> None:
    first, other = run.select_nodes("mse_loss")
    assert run.series(first).rows["mean"].tolist() == [1, 101, 201]
    assert len(run.series(other).between) == len(run.series(first, slot=1).rows) == 0
    (linear,) = run.select_nodes("^Default/network-Net/fc-Linear", regex=True, ranks=[0])
    assert run.series(linear, "input").rows["mean"].tolist() == [0, -100, -200]
    (relu,) = dump.select_nodes(RELU)
    assert dump.series(relu).rows["max"].tolist() == [2.0]


def test_scopes_and_their_numbers(run: Reader) -> None:
    tree, numbers = run.scopes(), run.scope_numbers(step=1)
    by_name = {name: number for number, name in enumerate(tree.names)}
    linear = by_name["Default/network-Net/fc-Linear"]
    assert (tree.nodes[0], tree.nodes[by_name["Default"]], tree.nodes[linear]) == (4, 3, 1)
    assert tree.parameters[by_name["Default/optimizer-SGD"]] == 1
    assert numbers.rows[0] == 4 and numbers.rows[linear] == 1
    assert (numbers.min[0], numbers.max[0]) == (-1.0, 2.0)
    assert run.scope_numbers(rank=1).rows[0] == 4


def test_passes_graphs_and_states(run: Reader, dump: Reader) -> None:
    assert (run.state, dump.state) == ("finished", "finished")
    for reader in (run, dump):
        rank = reader.recording.rank(0)
        assert [each.step for each in rank.passes(2)] == [2]
        assert len(rank.graph(0)) == len(rank.nodes)


def test_a_dump_is_looked_at_anew(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path / "dump")
    made.statistic(4, [(RELU, [1.0, 2.0])], ["max"])
    reader = opscope.open(tmp_path / "dump")
    assert reader.steps == [4]
    made.statistic(5, [(RELU, [1.0, 9.0])], ["max"])
    assert reader.steps == [4]
    reader.refresh()
    assert reader.steps == [4, 5]
    assert [hit.step for hit in reader.check("TL max_gt=5").hits] == [5]
