"""Run faults, or their twins, one after another, each watched in a session of its own.

`run.py FOLDER MODULE faulty|healthy WATCH NAME…` writes their runs to FOLDER/their names. With
COMPARED for WATCH they go on after their hits and are dumped too: FOLDER/NAME/run and /dump.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch

import opscope

sys.path.insert(0, str(Path(__file__).parents[2]))
from helpers.same_answer import COMPARED, WATCH, dump_config

torch.set_num_threads(1)
folder, module, twin, watch = Path(sys.argv[1]), *sys.argv[2:5]
rows = {row.name: row for row in importlib.import_module(f"faults.sets.{module}").FAULTS.rows}


def options_of(name: str) -> dict[str, Any]:
    """Return how one of them is watched."""
    place = folder / name
    if watch == COMPARED:
        dump = dump_config(place, "0-3")
        return {"run_dir": place / "run", "dump": dump, "watch": WATCH, "on_hit": "log"}
    on_hit = "log" if module.endswith("silent") else "stop"
    return {"run_dir": place, "record": True, "watch": watch, "on_hit": on_hit}


for name in sys.argv[5:]:
    torch.manual_seed(0)
    try:
        with opscope.start(**options_of(name), page=False, save_state=0, write_run=True):
            rows[name].train(twin == "healthy")
    except (SystemExit, RuntimeError, ValueError, FloatingPointError) as error:
        print(f"{name}: {type(error).__name__}", file=sys.stderr)
