"""Healthy programs of packages give no alarm, and learn the same to the last bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from faults.healthy.real import PROGRAMS, SETS
from helpers.forked import launched
from helpers.program import python
from helpers.same_answer import live_hits

PARALLEL = Path(__file__).parents[1] / "faults" / "healthy_tensor_parallel.py"
REAL = Path(__file__).parents[1] / "faults" / "healthy" / "real.py"
PACKAGES = ("transformers", "lightning", "peft", "accelerate", "x_transformers")
# torchvision's wheel is for CUDA builds of torch: beside another one torchmetrics cannot be
# imported any more. So timm is no extra of this package; install both to have it tried.
NEEDS = dict.fromkeys(("timm_resnet", "timm_vit"), ("timm", "torchvision"))


def _has(*packages: str) -> bool:
    return all(importlib.util.find_spec(name) for name in packages)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not _has(*PACKAGES),
    reason=f"needs {', '.join(PACKAGES)}",
)
def test_healthy_programs_of_packages(tmp_path: Path) -> None:
    names = [p.__name__ for p in PROGRAMS if _has(*NEEDS.get(p.__name__, ()))]
    done = python(REAL, tmp_path, *names, cwd=tmp_path, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    learned = {(n, how): digest for n, how, digest in (line for line in lines if len(line) == 3)}
    every = [(name, watch) for name in names for watch in SETS]
    assert [each for each in every if learned[each] != learned[each[0], "plain"]] == []
    found = {(name, watch): live_hits(tmp_path / watch / name) for name, watch in every}
    assert {n: [(h["condition"], h["message"]) for h in hits] for n, hits in found.items()} == {
        each: [] for each in every
    }


@pytest.mark.long
def test_layers_split_over_ranks(tmp_path: Path) -> None:
    """Tensor parallelism: both ranks are silent, and learn what they learn alone."""
    starter = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    plain = python(*starter, PARALLEL, cwd=tmp_path)
    run = ("run", "--no-page", "--watch", "everything", "--run-dir", tmp_path / "run")
    done = launched(*run, PARALLEL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    assert live_hits(tmp_path / "run") == []
    assert plain.stdout.count("learned") == 2
    assert sorted(done.stdout.split()) == sorted(plain.stdout.split())
