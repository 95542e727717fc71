"""Run healthy trainings one after another, each watched in a session of its own.

`run.py FOLDER MODULE…` writes the run of every training of `MODULE.TRAININGS` to FOLDER/its name,
and a dump of its first steps beside it. Nothing stops a training; beside the recommended
watchpoints there are others that do hit, to compare what is found while it runs with what is found
afterwards.
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
for name in sys.argv[2:]:
    for train in importlib.import_module(f"faults.healthy.{name}").TRAININGS:
        config = dump_config(folder / train.__name__, "0-2")
        run = folder / train.__name__ / "run"
        with opscope.start(
            dump=config,
            record=True,
            run_dir=run,
            page=False,
            watch=WATCH,
            on_hit="log",
            save_state=0,
        ):
            train()
