"""SQL over a run."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_run import SCRIPT, MadeRun, row, write_run

from opscope.events import IO, Call, ValueStats
from opscope.read.run import open_run
from opscope.read.tables import COLUMNS, connect

duckdb = pytest.importorskip("duckdb")


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """The answer of a run."""
    answer: list[tuple[Any, ...]] = connect(open_run(path)).execute(sql).fetchall()
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
    for table in (*COLUMNS, "stats"):
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
        "from opscope.read.tables import connect\n"
        "connect(open_run(Path(sys.argv[1])))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert "pip install 'opscope[query]'" in result.stderr
