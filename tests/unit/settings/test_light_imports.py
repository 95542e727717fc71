from __future__ import annotations

import subprocess
import sys

import opscope.settings


def test_settings_load_no_framework() -> None:
    code = (
        "import sys, opscope.settings\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'torch', 'numpy', 'duckdb', 'rich'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_everything_promised_is_there() -> None:
    assert all(hasattr(opscope.settings, name) for name in opscope.settings.__all__)
