"""docs/run-directory.md names every file, field and column there is."""

from __future__ import annotations

import json
from pathlib import Path

from made_run import MadeRun, write_run

from opscope.read.table_lines import COLUMNS
from opscope.stats.record import ROW_DTYPE

TEXT = (Path(__file__).parents[3] / "docs/run-directory.md").read_text()


def test_every_field_of_a_row_is_documented() -> None:
    names = [name for name in ROW_DTYPE.names or () if not name.endswith("int")]
    assert [name for name in names if f"`{name}`" not in TEXT] == []


def test_every_file_and_key_is_documented(tmp_path: Path) -> None:
    write_run(tmp_path)
    made = MadeRun(tmp_path, rank=1).open()
    made.writer.close()
    files = [path for path in tmp_path.rglob("*.json*") if path.parent.name != "sources"]
    assert [path.name for path in files if path.name not in TEXT] == []
    keys = {
        key
        for path in files
        for line in (
            path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        )
        for key in json.loads(line)
    }
    assert sorted(key for key in keys if f"`{key}`" not in TEXT) == []


def test_every_column_of_the_tables_is_documented() -> None:
    columns = {name for table, found in COLUMNS.items() if table != "types" for name in found}
    assert sorted(name for name in columns if f"`{name}`" not in TEXT) == []
