"""What `make demo` does where there is no terminal: the verdict, a report of it, and a good end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.program import clean_environment

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.long
def test_without_a_terminal_it_writes_a_report() -> None:
    done = subprocess.run(
        [sys.executable, DEMO],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "NaN or Inf in step 24" in done.stderr
    report = (DEMO.parents[1] / "demo-run" / "report.html").read_text()
    assert "began in div" in report and "late_fault.py:25" in report
