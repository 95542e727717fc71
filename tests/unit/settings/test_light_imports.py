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


def test_the_training_kit_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys, opscope\n"
        "opscope.train, opscope.context\n"
        "print([n for n in ('torch', 'numpy', 'logging.handlers') if n in sys.modules])\n"
        "from opscope.train import RunContext\n"
        "print('torch' in sys.modules, hasattr(opscope, 'nothing_like_this'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\nFalse False\n"
