"""Run faults, or their twins, one after another, each watched in a session of its own.

`run.py FOLDER MODULE faulty|healthy WATCH NAME…` writes their runs to FOLDER/their names.
"""

import importlib
import sys
from pathlib import Path

import torch

import opscope

sys.path.insert(0, str(Path(__file__).parents[2]))

torch.set_num_threads(1)
folder, module, twin, watch = Path(sys.argv[1]), *sys.argv[2:5]
rows = {row.name: row for row in importlib.import_module(f"faults.sets.{module}").FAULTS.rows}
on_hit = "log" if module.endswith("silent") else "stop"
for name in sys.argv[5:]:
    torch.manual_seed(0)
    try:
        with opscope.start(
            record=True,
            run_dir=folder / name,
            page=False,
            watch=watch,
            on_hit=on_hit,
            save_state=0,
        ):
            rows[name].train(twin == "healthy")
    except (SystemExit, RuntimeError, ValueError, FloatingPointError) as error:
        print(f"{name}: {type(error).__name__}", file=sys.stderr)
