"""Reading runs: finished, killed, being written, damaged, or no runs at all."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from made_run import SCRIPT, MadeRun, write_run

from opscope.calls import Calls
from opscope.errors import OpscopeError
from opscope.events import Frame, Outside, Phase, StepRecord
from opscope.read.run import open_run
from opscope.read.summary import summarize


def test_a_finished_run_comes_back_as_it_was(tmp_path: Path) -> None:
    made = write_run(tmp_path / "run")
    run = open_run(tmp_path / "run")
    rank = run.rank(0)
    assert (run.state, list(run.ranks)) == ("finished", [0])
    assert [node.name for node in rank.nodes.values()] == [node.name for node in made.nodes]
    linear, loss, backward, update = rank.nodes.values()
    assert linear.arguments == {"beta": "1", "alpha": "1"}
    assert (backward.phase, backward.forward) == (Phase.BACKWARD, linear)
    assert linear.sources == [Outside("parameter", "fc.weight", "fc.weight"), Outside("batch", "x")]
    assert loss.sources == [linear.outputs[0]]
    assert update.outputs[0].parameter == "fc.weight"
    assert linear.stack.where == Frame("train.py", 1, "main", True)
    assert [step.step for step in rank.steps] == [0, 1, 2]
    assert rank.steps[1].orders == {0: [linear, loss, backward, update]}
    assert rank.steps[1].losses[0].value == 0.5
    assert rank.steps[1].losses[0].node is loss
    assert math.isnan(rank.steps[2].losses[0].value)


def test_rows_can_be_chosen_by_node_and_step(tmp_path: Path) -> None:
    write_run(tmp_path)
    rank = open_run(tmp_path).rank(0)
    assert len(rank.stats()) == 18
    assert rank.stats(nodes={1})["mean"].tolist() == [1, 101, 201]
    assert rank.stats(nodes={1, 2}, steps={2})["mean"].tolist() == [201, 202]
    assert rank.stats(steps={9}).size == 0
    record = rank.stats(nodes={3}, steps={1})[0]
    assert rank.types[int(record["shape"])] == ("bfloat16", (3, 2))


def test_source_lines_come_from_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text(SCRIPT)
    write_run(tmp_path / "run", source=str(source))
    source.write_text("something else\n")
    run = open_run(tmp_path / "run")
    assert run.code(Frame(str(source), 2, "main", True)) == "loss.backward()"
    assert run.code(Frame(str(source), 99, "main", True)) is None
    assert run.code(Frame("other.py", 1, "main", True)) is None


def test_a_run_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    done = threading.Event()

    def train() -> None:
        for step in range(400):
            made.step(step)
        done.set()

    trainer = threading.Thread(target=train)
    trainer.start()
    seen = 0
    while not done.is_set():
        rank = open_run(tmp_path).rank(0)
        rows = rank.stats()
        assert len(rows) >= seen
        assert {int(n) for n in rows["node"]} <= set(rank.nodes)
        assert {int(n) for n in rows["shape"]} <= set(rank.types)
        assert (rows["count"] == 6).all()
        assert [step.step for step in rank.steps] == list(range(len(rank.steps)))
        seen = len(rows)
    trainer.join()
    assert open_run(tmp_path).state == "running"
    made.writer.close()
    assert open_run(tmp_path).state == "finished"
    assert len(open_run(tmp_path).rank(0).stats()) == 2400


TRAIN_FOREVER = """
import itertools, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from made_run import MadeRun
made = MadeRun(Path(sys.argv[1])).open()
for step in itertools.count():
    made.step(step)
    if step == 50:
        print("going", flush=True)
"""


def test_a_killed_run_keeps_every_step_that_ended(tmp_path: Path) -> None:
    helper = str(Path(__file__).parent.parent / "rundir")
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN_FOREVER, str(tmp_path), helper], stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"going\n"
    assert open_run(tmp_path).state == "running"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    run = open_run(tmp_path)
    steps = run.rank(0).steps
    rows = run.rank(0).stats()
    assert run.state == "killed"
    folder = run.path / "recorder" / "rank_0" / "rdr"
    folder.mkdir(parents=True)
    for cause, text, state in (
        ("SIGSEGV", "SIGSEGV at the address 0x8", "killed: SIGSEGV in step 7"),
        ("os._exit", "os._exit(3)", "killed: os._exit(3)"),
        ("killed", "killed from outside (SIGKILL)", "killed"),
    ):
        report = {"cause": cause, "cause_text": text, "step": 7}
        (folder / "report.json").write_text(json.dumps(report))
        assert run.state == state
    assert len(steps) > 50
    assert [step.step for step in steps] == list(range(len(steps)))
    for step in (0, 17, len(steps) - 1):
        expected = [100.0 * step + place for place in range(4)]
        outputs = rows[(rows["step"] == step) & (rows["io"] == 1)]
        assert outputs["mean"].tolist() == expected


def test_torn_files_are_read_up_to_the_tear(tmp_path: Path) -> None:
    write_run(tmp_path)
    for name in ("nodes", "steps", "edges", "stacks", "shapes", "orders"):
        with open(tmp_path / f"rank_0/{name}.jsonl", "ab") as file:
            file.write(b'{"id": 99, "na')
    segment = tmp_path / "rank_0/stats/000000.rows"
    segment.write_bytes(segment.read_bytes()[:-100])
    (tmp_path / "rank_0/end.json").unlink()
    run = open_run(tmp_path)
    rank = run.rank(0)
    assert run.state == "killed"
    assert (len(rank.nodes), len(rank.steps), len(rank.stats())) == (4, 3, 17)


def test_two_ranks_are_two_readers(tmp_path: Path) -> None:
    write_run(tmp_path, rank=0, world_size=2)
    second = MadeRun(tmp_path, rank=1, world_size=2).open()
    second.step(0)
    run = open_run(tmp_path)
    assert list(run.ranks) == [0, 1]
    assert run.state == "running"
    assert (len(run.rank(0).steps), len(run.rank(1).steps)) == (3, 1)
    second.writer.close()
    with pytest.raises(OpscopeError, match=r"has no rank 7; it has: 0, 1"):
        run.rank(7)


def test_a_summary_reads_the_last_lines(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=4)
    summary = summarize(open_run(tmp_path / "run"))
    assert (summary.name, summary.state, summary.ranks) == ("run", "finished", 1)
    assert (summary.steps, summary.nodes) == (4, 4)
    assert summary.loss is not None and math.isnan(summary.loss)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert summary.size == sum(path.stat().st_size for path in files)


def test_the_rest_of_a_step_is_no_step(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run").open()
    made.step(0)
    made.writer.step_end(StepRecord(1, Calls(made.nodes[:1]), [], 0.1, complete=False))
    made.writer.close()
    summary = summarize(open_run(tmp_path / "run"))
    assert (summary.steps, summary.loss) == (1, 1.0)


def test_a_run_before_its_first_step_has_a_summary(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run").open()
    summary = summarize(open_run(tmp_path / "run"))
    assert (summary.state, summary.steps, summary.nodes, summary.loss) == ("running", 0, 0, None)
    made.writer.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no such directory"),
        (lambda path: path.write_text(""), "it is a file"),
        (lambda path: path.mkdir(), "it has no readable run.json"),
    ],
)
def test_what_is_no_run_is_said(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(OpscopeError, match=message):
        open_run(tmp_path / "x")


def test_a_run_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    write_run(tmp_path)
    info = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**info, "format": 9, "opscope": "7.0"}))
    with pytest.raises(OpscopeError, match=r"format 9; .* reads format 2\. .* opscope 7\.0"):
        open_run(tmp_path)
