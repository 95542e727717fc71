"""Run healthy trainings one after another, each watched in a session of its own.

`run.py FOLDER MODULE…` writes the run of every training of `MODULE.TRAININGS` to FOLDER/its name.
"""

import importlib
import sys
from pathlib import Path

import torch

import opscope

sys.path.insert(0, str(Path(__file__).parents[2]))
torch.set_num_threads(1)
importlib.import_module("helpers.models").STEPS = 25  # instead of 5
folder = Path(sys.argv[1])
for name in sys.argv[2:]:
    for train in importlib.import_module(f"faults.healthy.{name}").TRAININGS:
        with opscope.start(run_dir=folder / train.__name__, page=False):
            train()
