"""Observing never changes training: losses, weights and random numbers are bit-identical."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from helpers.examples import one_in
from helpers.models import MODELS, Trained, assert_identical, ddp
from helpers.ranks import run_ranks
from helpers.recorder import Recorder, recording
from opscope.events import Want
from opscope.messages import forget_said

VALUES = Want.INPUT_VALUES | Want.OUTPUT_VALUES
STATS = Want.INPUT_STATS | Want.OUTPUT_STATS | Want.OUTSIDE_STATS
WANTS = {"values": VALUES, "stats": STATS, "nothing": Want.NOTHING}
WORLD = 2
_plain: dict[str, Trained] = {}


def plain_run(train) -> Trained:
    """The outcome without opscope, computed once per model."""
    if train.__name__ not in _plain:
        _plain[train.__name__] = train()
    return _plain[train.__name__]


@pytest.mark.parametrize("wanted", WANTS)
@pytest.mark.parametrize("train", MODELS, ids=lambda train: train.__name__)
def test_training_is_the_same_when_watched(train, wanted, capsys) -> None:
    forget_said()
    plain = plain_run(train)
    with recording(Recorder(WANTS[wanted])) as seen:
        watched = train()
    assert_identical(plain, watched)
    assert [record.step for record in seen.steps if record.complete] == [*range(plain.steps)]
    assert bool(seen.calls) == (wanted == "values")
    assert bool(seen.rows) == (wanted == "stats")
    assert {"forward", "backward", "optimizer"} <= {node.phase.value for node in seen.nodes}
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("train", MODELS[1::3], ids=lambda train: train.__name__)
def test_training_is_the_same_when_every_other_step_is_watched(train) -> None:
    with recording(steps=lambda step: step % 2 == 0) as seen:
        sampled = train()
    assert_identical(plain_run(train), sampled)
    assert [record.step for record in seen.steps if record.complete] == [0, 2, 4]


def train_rank(rank: int, folder: str, wanted: str) -> None:
    """One rank: trains, watched or not, and leaves its outcome behind."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store-{wanted}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    if wanted == "plain":
        trained = ddp(rank, WORLD)
    else:
        with recording(Recorder(WANTS[wanted])) as seen:
            trained = ddp(rank, WORLD)
        assert len(seen.steps) >= trained.steps
        assert "c10d_allreduce_" in {node.op_type for node in seen.nodes}
    torch.save(vars(trained), f"{folder}/{wanted}-{rank}")
    dist.destroy_process_group()


@pytest.mark.parametrize("wanted", one_in(3, WANTS))
def test_data_parallel_training_is_the_same_when_watched(tmp_path: Path, wanted) -> None:
    for way in ("plain", wanted):
        run_ranks(train_rank, WORLD, str(tmp_path), way)
    for rank in range(WORLD):
        plain, watched = (
            Trained(**torch.load(tmp_path / f"{way}-{rank}", weights_only=False))
            for way in ("plain", wanted)
        )
        assert_identical(plain, watched)
