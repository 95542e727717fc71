"""Run healthy trainings one after another, each watched in a session of its own.

`run.py FOLDER MODULE NAME…` writes the runs of these trainings of the module to FOLDER/their names,
and a dump of its first steps beside it. Nothing stops a training; beside recommended watchpoints
there are others that do hit, to compare what is found while it runs with what is found afterwards.
"""

import importlib
import sys
from pathlib import Path

import torch

import opscope

sys.path.insert(0, str(Path(__file__).parents[2]))
from helpers.same_answer import WATCH, dump_config

torch.set_num_threads(1)
importlib.import_module("helpers.models").STEPS = 25  # instead of 5
folder = Path(sys.argv[1])
module = importlib.import_module(f"faults.healthy.{sys.argv[2]}")
trainings = {train.__name__: train for train in module.TRAININGS}
for name in sys.argv[3:]:
    torch.manual_seed(0)
    config = dump_config(folder / name, "0-1")
    with opscope.start(
        dump=config,
        record=True,
        run_dir=folder / name / "run",
        page=False,
        watch=WATCH,
        on_hit="log",
        save_state=0,
    ):
        trainings[name]()
