"""The peer suite notices what it is there for: watchers that are wrong on purpose are caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import _pop_mode

from peers import units
from peers.judge import Verdict, judge
from peers.program import run_peers
from peers.watchers import WATCHERS

_UNITS = (
    "op:sin:float32",
    "op:mm:float32",
    "op:sum:float32",
    "op:index_select:bfloat16",
    "op:mul:complex64",
    "op:dot:int64",
    "op:linalg.norm:float32",
    "program:random_numbers",
    "module:nn.BatchNorm1d",
    "optimizer:Adam",
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def verdicts(unit: str, watcher: str, sort: str = "") -> list[Verdict]:
    """Of some cases of a unit."""
    found = [case for case in units.cases_of(unit, 2) if case.name.startswith(sort)]
    assert found
    return [judge(case, WATCHERS[watcher]) for case in found]


def differences(unit: str, watcher: str, sort: str = "") -> list[str]:
    return [text for verdict in verdicts(unit, watcher, sort) for text in verdict.differences]


@pytest.mark.parametrize("unit", _UNITS)
def test_nobody_watching_makes_no_difference(unit: str) -> None:
    assert not differences(unit, "nothing")
    assert not any(verdict.skipped for verdict in verdicts(unit, "nothing"))


@pytest.mark.parametrize(
    ("watcher", "unit", "sort", "said"),
    [
        ("add-ulp", "op:sin:float32", "call", "result"),
        ("add-ulp", "op:mm:float32", "second", "first"),
        ("add-ulp", "op:sin:float32", "jvp", "tangents"),
        ("add-ulp", "op:sin:float32", "dual", "tangents"),
        ("add-ulp", "op:sin:float32", "inplace", "result"),
        ("add-ulp", "op:sin:float32", "method", "result"),
        ("add-ulp", "op:sin:float32", "out", "result"),
        ("add-ulp", "module:nn.Linear", "train", "result"),
        ("add-ulp", "module:nn.Linear", "eval", "result"),
        ("add-ulp", "optimizer:SGD", "options", "loss 0"),
        ("add-ulp", "program:gradients_per_sample", "", "result"),
        ("reorder", "program:gradient_penalty", "", "result"),
        ("draw-random", "op:sin:float32", "call", "rng"),
        ("draw-random", "program:random_numbers", "", "result"),
        ("rephrase", "op:gather:float32", "error", "became"),
        ("restride", "op:sin:float32", "call", "stride"),
        ("rows-off", "op:sin:float32", "call", "rows of result"),
        ("rows-off", "op:mm:float32", "call", "rows of gradients"),
        ("rows-off", "op:add:int64", "call", "rows of result"),
        ("rows-off", "op:add:complex64", "call", "rows of result"),
        ("rows-lost", "op:sin:float32", "call", "no operator has a row"),
    ],
)
def test_wrong_watcher_is_caught(watcher: str, unit: str, sort: str, said: str) -> None:
    found = differences(unit, watcher, sort)
    assert any(said in text for text in found), found


def test_what_a_watcher_leaves_behind_is_noticed() -> None:
    try:
        assert "left behind" in differences("op:neg:int64", "leak", "call[0]")[0]
    finally:
        while torch._C._len_torch_dispatch_stack():
            _pop_mode(None)


def test_crash_and_hang_are_named_and_do_not_end_the_suite() -> None:
    report = run_peers(
        "--watcher=crash",
        "--limit=3",
        "--case=op:abs:int64:call[0]",
        "--case=op:abs:int64:method[0]",
        "--case=op:neg:int64:call[0]",
        "--case=op:sign:int64:call[0]",
        "--case=op:empty_like:float32:call[0]",
    )
    assert report["crashes"].keys() == {
        "op:abs:int64:call[0]",
        "op:abs:int64:method[0]",
        "op:neg:int64:call[0]",
    }
    assert "SIGSEGV" in report["crashes"]["op:abs:int64:call[0]"]
    assert "Timeout" in report["crashes"]["op:neg:int64:call[0]"]
    assert report["cases"] == 2 and not report["differences"]
    assert report["skipped"].keys() == {"op:empty_like:float32:call[0]"}  # never written to


def test_sample_is_fixed_and_covers_every_family() -> None:
    sample = units.sampled()
    assert sample == units.sampled()
    assert len(set(sample)) == len(sample)
    assert {name.split(":")[0] for name in sample} == {"program", "optimizer", "module", "op"}
    for prefix in ("op:linalg.", "op:nn.functional.", "op:fft.", "op:special.", "op:masked."):
        assert any(name.startswith(prefix) for name in sample), prefix
    assert {name.rpartition(":")[2] for name in sample if name.startswith("op:")} == {
        "float32",
        "bfloat16",
        "complex64",
        "int64",
    }


def test_chunks_are_everything_once() -> None:
    whole = units.whole()
    parts = units.chunks(whole, 7)
    assert sorted(name for part in parts for name in part) == sorted(whole)
