"""How many of the faults in tests/faults/sets are found, and how many healthy twins alarm.

Every fault and every twin runs under opscope with the recommended and the thorough set, and under
`torch.autograd.detect_anomaly`; a markdown table counts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
RUN = TESTS / "faults" / "sets" / "run.py"
FAILED = re.compile(r"Function '\w+' returned nan values")
FRAME = re.compile(r'File ".*?_numbers\.py", line (\d+)')
MODULES = (
    *("silent", "bad_numbers", "fresh_silent", "fresh_numbers"),
    *("forum_silent", "forum_numbers", "held_silent", "held_numbers"),
    *("later_silent", "later_numbers"),
)

sys.path.insert(0, str(TESTS))


def rows_of(module: str) -> list[Any]:
    """The faults of a set."""
    import importlib

    rows: list[Any] = importlib.import_module(f"faults.sets.{module}").FAULTS.rows
    return rows


def hits_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """What opscope found in one of them."""
    path = folder / name / "rank_0" / "hits.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_found(row: Any, hits: list[dict[str, Any]], module: str) -> bool:
    """Whether an expected condition hit, or the verdict names the operator and the line."""
    if module.endswith("silent"):
        return bool({hit["condition"] for hit in hits} & row.expected)
    verdict = next((hit["verdict"] for hit in hits if hit.get("verdict")), None)
    named = int(verdict["where"].rpartition(":")[2]) if verdict and verdict["where"] else None
    return verdict is not None and verdict["op_type"] in row.expected and named == row.line


def under_opscope(module: str, watch: str) -> tuple[int, int]:
    """How many faults are found, and how many twins alarm."""
    rows, counts = rows_of(module), []
    for twin in ("faulty", "healthy"):
        with tempfile.TemporaryDirectory() as folder:
            words = [str(RUN), folder, module, twin, watch, *(row.name for row in rows)]
            subprocess.run([sys.executable, *words], capture_output=True, timeout=900, check=True)
            every = [(row, hits_of(Path(folder), row.name)) for row in rows]
        if twin == "faulty":
            counts.append(sum(is_found(row, hits, module) for row, hits in every))
        else:
            counts.append(sum(bool(hits) for _, hits in every))
    return counts[0], counts[1]


def under_anomaly(module: str) -> tuple[int, int]:
    """The same of `detect_anomaly`; for a fault with NaN the line must be right."""
    rows = rows_of(module)
    found = sum(_blames(row, module) for row in rows)
    return found, sum(_said(row, healthy=True) is not None for row in rows)


def _blames(row: Any, module: str) -> bool:
    text = _said(row, healthy=False)
    if text is None:
        return False
    lines = [int(line) for line in FRAME.findall(text)]
    return module.endswith("silent") or (bool(lines) and lines[-1] == row.line)


def _said(row: Any, healthy: bool) -> str | None:
    """What `detect_anomaly` says of a training, if it says something."""
    import torch

    torch.manual_seed(0)
    said = io.StringIO()
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            with torch.autograd.set_detect_anomaly(True):
                row.train(healthy)
        except (RuntimeError, ValueError, ArithmeticError, SystemExit) as error:
            return said.getvalue() if FAILED.search(str(error)) else None
    return None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=MODULES, help="those to count, or all")
    sets = parser.parse_args().sets
    print("| set | judged by | found | twins that alarm |\n|---|---|---|---|")
    for module in sets:
        count = len(rows_of(module))
        for watch in ("recommended", "thorough"):
            found, alarms = under_opscope(module, watch)
            print(f"| {module} | opscope, {watch} | {found} of {count} | {alarms} of {count} |")
        found, alarms = under_anomaly(module)
        print(f"| {module} | detect_anomaly | {found} of {count} | {alarms} of {count} |")


if __name__ == "__main__":
    main()
