"""Run one fault, or its twin, as a script: `one.py MODULE faulty|healthy NAME`."""

import importlib
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

torch.set_num_threads(1)
torch.manual_seed(0)
module, twin, name = sys.argv[1:4]
rows = {row.name: row for row in importlib.import_module(f"faults.sets.{module}").FAULTS.rows}
rows[name].train(twin == "healthy")
