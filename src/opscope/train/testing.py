"""Assertions about training, for tests: the fixtures of the pytest plug-in are these functions."""

from __future__ import annotations

import contextlib
import csv
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import opscope
from opscope.train.watching import Watching


@contextlib.contextmanager
def assert_finite(**options: Any) -> Iterator[None]:
    """Fail if NaN or Inf turns up in training inside, and say where it began.

    `options` are those of `opscope.start`; `watch` is what counts.
    """
    with tempfile.TemporaryDirectory(prefix="opscope-") as folder:
        given = {"watch": "OO", "on_hit": "log", "run_dir": f"{folder}/run"} | options
        watching = Watching(given)
        watching.start()
        try:
            yield
        finally:
            watching.stop()
        found = [hit for hit in watching.hits if hit.nonfinite]
        if found:
            hit = found[0]
            more = f" ({len(found) - 1} more hits)" if len(found) > 1 else ""
            raise AssertionError(
                f"{hit.in_a_word} in {hit.moment}: {hit.message}\n"
                f"  operator  {hit.about}\n  code      {hit.where or 'unknown'}{more}"
            )


@contextlib.contextmanager
def assert_params_change(module: nn.Module, but: Sequence[str] = ()) -> Iterator[None]:
    """Fail if a parameter that is to be trained is the same after what is done inside.

    `but` holds globs on names of parameters that may stay as they are.
    """
    before = {
        name: parameter.detach().clone()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad and not any(fnmatchcase(name, glob) for glob in but)
    }
    if not before:
        raise AssertionError(f"{type(module).__name__} has no parameter to train")
    yield
    now = dict(module.named_parameters())
    same = [name for name, value in before.items() if torch.equal(value, now[name].detach())]
    if same:
        raise AssertionError(f"{len(same)} of {len(before)} parameters have not changed: {same}")


def assert_runs_match(
    train: Callable[[], object], other: Callable[[], object] | None = None, *, seed: int = 0
) -> None:
    """Fail unless two trainings, or one done twice, are equal bit by bit in every output.

    The digests of all outputs of all operators are compared in their order; random numbers start
    from `seed` both times. The error names the first operator that differs.
    """
    with tempfile.TemporaryDirectory(prefix="opscope-") as folder:
        first = _digests(train, Path(folder, "first"), seed)
        second = _digests(other or train, Path(folder, "second"), seed)
    for number, (one, two) in enumerate(zip_longest(first, second)):
        if one != two:
            raise AssertionError(_difference(number, one, two))
    if not first:
        raise AssertionError("no operator ran in a training step: there is nothing to compare")


class _Digest(NamedTuple):
    step: int
    operator: str
    slot: str
    shape: str
    md5: str


def _difference(number: int, one: _Digest | None, two: _Digest | None) -> str:
    if one is None or two is None:
        which, longer = ("second", two) if one is None else ("first", one)
        return f"after {number} equal outputs only the {which} run goes on, with {longer}"
    if one[:3] != two[:3]:
        return f"after {number} equal outputs the runs do different things: {one} and {two}"
    return (
        f"the runs differ from step {one.step} on, after {number} equal outputs: "
        f"{one.operator} output {one.slot} {one.shape} has the digests {one.md5} and {two.md5}"
    )


def _digests(train: Callable[[], object], folder: Path, seed: int) -> list[_Digest]:
    """Run a training and digest all outputs."""
    folder.mkdir()
    config = {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(folder / "dump"),
            "net_name": "Net",
            "iteration": "all",
            "saved_data": "statistic",
            "input_output": 2,
            "statistic_category": ["max", "md5"],
        }
    }
    file = folder / "dump.json"
    file.write_text(json.dumps(config))
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    with opscope.start(dump=file):
        train()
    tables = (folder / "dump").glob("rank_*/Net/*/*/statistic.csv")
    return [row for table in sorted(tables, key=_numbers) for row in _rows(table)]


def _numbers(table: Path) -> list[int]:
    """Rank, graph and iteration, to sort by."""
    return [int(number) for number in re.findall(r"\d+", "/".join(table.parts[-5:]))]


def _rows(table: Path) -> Iterator[_Digest]:
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            yield _Digest(
                int(table.parent.name), row["Op Name"], row["Slot"], row["Shape"], row["MD5"]
            )
