"""SQL over a run."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import FC, RELU, MadeFiles
from made_run import SCRIPT, MadeRun, row, write_run

from opscope.events import IO, Call, ValueStats
from opscope.read.reader import open_recording
from opscope.read.table_lines import COLUMNS
from opscope.read.tables import Tables
from opscope.rundir.segments import SegmentWriter
from opscope.stats.record import OUTPUT, ROW_DTYPE, VALID

duckdb = pytest.importorskip("duckdb")


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """The answer of a run, which is the same however the question is understood."""
    with Tables(open_recording(path)) as tables:
        answer: list[tuple[Any, ...]] = tables.connection.execute(sql).fetchall()
    with Tables(open_recording(path), sql) as tables:
        understood = list(tables.ask(sql)[1])
    assert sorted(map(repr, understood)) == sorted(map(repr, answer))
    return answer


def test_statistics_with_the_names_of_their_nodes(tmp_path: Path) -> None:
    write_run(tmp_path)
    linear = "Default/network-Net/fc-Linear/addmm-op0"
    assert ask(
        tmp_path,
        "select step, name, io, slot, dtype, shape, count, min, mean, positive from stats "
        "where phase = 'forward' and step = 2 order by call, io",
    ) == [
        (2, linear, "input", 0, "bfloat16", "[3, 2]", 6, -1.0, -200.0, 3),
        (2, linear, "output", 0, "float32", "[2, 3]", 6, -1.0, 200.0, 3),
        (2, "Default/mse_loss-op0", "output", 0, "float32", "[2, 3]", 6, -1.0, 201.0, 3),
    ]


def test_integers_are_exact_and_what_is_missing_is_null(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    made.writer.node(made.linear)
    extremes = [(-(2**63), 2**63 - 1), (2**63, 2**64 - 1), (math.nan, math.nan), (-1.5, math.inf)]
    for index, (low, high) in enumerate(extremes):
        value = ValueStats(
            Call(made.linear, 0, index, 0, 0), IO.OUTPUT, 0, "x", (), row(min=low, max=high)
        )
        made.rows.deliver([value])
    made.writer.close()
    assert ask(tmp_path, "select min, max, min_int, max_int from stats order by call") == [
        (-(2.0**63), 2.0**63, -(2**63), 2**63 - 1),
        (2.0**63, 2.0**64, 2**63, 2**64 - 1),
        (None, None, None, None),
        (-1.5, math.inf, None, None),
    ]


def test_steps_nodes_and_stacks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    write_run(tmp_path / "run", source=str(tmp_path / "train.py"))
    steps = ask(tmp_path / "run", "select step, seconds, operators, losses, isnan(loss) from steps")
    assert steps[:2] == [(0, 0.25, 4, [1.0], False), (1, 0.25, 4, [0.5], False)]
    assert steps[2][4] is True
    assert ask(tmp_path / "run", "select node, forward, line, function, parameter from nodes") == [
        (0, None, 1, "main", None),
        (1, None, 1, "main", None),
        (2, 0, 1, "main", None),
        (3, None, None, None, None),
    ]
    code = ask(tmp_path / "run", "select depth, user, code from stacks order by depth")
    assert code == [(0, False, None), (1, True, SCRIPT.splitlines()[0])]


def test_ranks_are_a_column(tmp_path: Path) -> None:
    write_run(tmp_path, rank=0, world_size=2)
    write_run(tmp_path, rank=1, steps=1, world_size=2)
    assert ask(tmp_path, "select rank, count(*) from stats group by rank order by 1") == [
        (0, 18),
        (1, 6),
    ]
    assert ask(tmp_path, "select rank, count(*) from nodes group by rank order by 1") == [
        (0, 4),
        (1, 4),
    ]


def test_a_run_without_rows_has_its_tables(tmp_path: Path) -> None:
    MadeRun(tmp_path).open().writer.close()
    for table in (*COLUMNS, "stats", "gaps"):
        assert ask(tmp_path, f"select count(*) from {table}") == [(0,)]
    assert ask(tmp_path, "select max(loss) from steps") == [(None,)]


@pytest.mark.parametrize(
    "sql",
    [
        "copy stats to '{path}'",
        "select * from read_csv('/etc/passwd')",
        "attach '{path}'",
        "set enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_but_the_run(tmp_path: Path, sql: str) -> None:
    write_run(tmp_path / "run", steps=1)
    with pytest.raises(duckdb.Error):
        ask(tmp_path / "run", sql.format(path=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_without_duckdb_it_says_what_to_install(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=1)
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from pathlib import Path\n"
        "from opscope.read.run import open_run\n"
        "from opscope.read.tables import Tables\n"
        "Tables(open_run(Path(sys.argv[1])))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert "pip install 'opscope[query]'" in result.stderr


def rows_for(path: Path, sql: str) -> int:
    """How many rows a question is asked of."""
    with Tables(open_recording(path), sql) as tables:
        ((count,),) = tables.connection.execute("select count(*) from rows").fetchall()
    return int(count)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select * from stats where node = 1", 40),
        ("select * from stats where 1 = node and max > 1", 40),
        ("select * from Stats as s where s.node in (1, 2) and s.step < 5", 20),
        ("select name from stats where name like '%mse%'", 40),
        ("select name from stats where name = 'Default/mse_loss-op0' and step = 3", 2),
        ("select * from stats where step between 3 and 4 order by call, io, rank", 24),
        ("select count(*) from stats where phase = 'forward' and rank = 1", 60),
        ("select max(mean) from stats where scope like '%fc%' and op_type = 'addmm'", 120),
        ("select node from stats where lower(name) = 'default/mse_loss-op0'", 40),
        # what follows needs all of them
        ("select * from stats where node = 1 or max > 1 order by all", 240),
        ("select 5 as node from stats where node = 1", 240),
        ("select * from stats a join stats b using (node, step, rank, call) where a.node = 1", 240),
        ("select * from stats where node = (select max(node) from stats)", 240),
        ("with a as (select * from stats where node = 1) select count(*) from a", 240),
        ("select * from stats where mean = node", 240),
        ("select node from stats where node = 1 union all select 7", 240),
        ("select count(*) from stats", 240),
    ],
)
def test_only_the_rows_that_matter_are_read(tmp_path: Path, sql: str, rows: int) -> None:
    for rank in (0, 1):
        write_run(tmp_path, rank, steps=20, world_size=2)
    assert rows_for(tmp_path, sql) == rows
    assert ask(tmp_path, sql) is not None


def test_a_question_makes_the_tables_it_names(tmp_path: Path) -> None:
    write_run(tmp_path)
    sql = "select table_name from duckdb_tables() order by 1"
    with Tables(open_recording(tmp_path), "select * from stats") as tables:
        assert tables.connection.execute(sql).fetchall() == [("nodes",), ("types",)]
    with Tables(open_recording(tmp_path), "show tables") as tables:
        names = {name for (name,) in tables.connection.execute(sql).fetchall()}
    assert names == {"nodes", "steps", "stacks", "types"}


def test_what_was_left_out_is_a_table(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, budget=1 << 16).open()
    for step in range(500):
        made.step(step)
    made.writer.close()
    sql = (
        "select name, sum(rows), min(first), bool_and(min = -1), bool_and(max = 2) from gaps "
        "where io = 'output' group by name"
    )
    kept = dict(ask(tmp_path, "select name, count(*) from stats where io = 'output' group by name"))
    left_out = ask(tmp_path, sql)
    assert len(left_out) == 4
    for name, rows, first, low, high in left_out:
        assert rows + kept[name] == 500
        assert first >= 1 and low and high


def test_a_dump_has_the_tables_it_has_data_for(tmp_path: Path) -> None:
    made = MadeFiles(tmp_path / "dump")
    made.save(2, FC, np.zeros(2), io="input")
    made.statistic(4, [(RELU, [1.0, 2.0])], ["max"])
    path = tmp_path / "dump"
    assert ask(path, "select step, name, max, l2, zero, count from stats") == [
        (4, RELU, 2.0, None, None, 2)
    ]
    assert ask(path, "select step, seconds, loss from steps") == [(2, None, None), (4, None, None)]
    assert ask(path, "select count(*) from gaps") == [(0,)]


def test_a_question_lets_go_of_the_recording_it_was_asked_of(tmp_path: Path) -> None:
    """At once: rows of files that are long gone would stay on disk until cycles are looked for."""
    write_run(tmp_path)
    gc.disable()
    try:
        recording = open_recording(tmp_path)
        held = weakref.ref(recording.rank(0))
        for sql in ("select max(mean) from stats", "select * from stats limit 1"):
            with Tables(recording, sql) as tables:
                assert len(list(tables.ask(sql)[1])) == 1
        del recording, tables
        assert held() is None
    finally:
        gc.enable()


MEMORY = """
import sys
from pathlib import Path
from opscope.read.reader import open_recording
from opscope.read.tables import Tables

for sql in sys.argv[2:]:
    with Tables(open_recording(Path(sys.argv[1])), sql) as tables:
        print(sum(1 for _ in tables.ask(sql)[1]))
status = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1000 for line in status if line.startswith("VmHWM")))
"""


def test_no_question_keeps_the_rows_it_looks_at_in_memory(tmp_path: Path) -> None:
    """On 400 MB of rows, without regard to what else the machine is doing."""
    made = MadeRun(tmp_path, budget=1 << 30).open()
    made.step(0)
    memory = made.writer.row_memory()
    assert isinstance(memory, SegmentWriter)
    records = np.zeros(1 << 16, ROW_DTYPE)
    records["valid"], records["io"] = VALID, OUTPUT
    records["node"], records["call"] = np.arange(len(records)) % 4, np.arange(len(records))
    for step in range(1, 50):
        records["step"] = step
        records["mean"] = np.random.default_rng(step).random(len(records))
        memory.append(records)
    made.writer.close()
    questions = [
        "select node, max(max) from stats group by node",
        "select * from stats order by mean desc limit 3",
        "select a.step from stats a join stats b on a.mean = b.mean and a.step = b.step - 1",
        "select count(*), avg(l2), count(distinct call) from stats where step > 3 and node > 1",
    ]
    words = [sys.executable, "-c", MEMORY, str(tmp_path), *questions]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *lines, peak = map(int, done.stdout.split())
    assert lines[:2] == [4, 3] and lines[3] == 1
    assert peak < 300
