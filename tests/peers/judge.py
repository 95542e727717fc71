"""One case, run plainly twice and watched twice, and what was different."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opscope.events import ValueStats
from peers.cases import Case, Outcome, attempt, seed, tensors_in
from peers.facts import difference, facts_of, without_bookkeeping
from peers.rows import expected_row, has_numbers, wrong_numbers
from peers.watchers import Observer, Watch, identity_of

RUNS = 2
"""Watched runs of a case: call sites are new in the first and known in the second."""
_M_PERTURB = -6
_FILLS = (0x11, 0xEE, 0x5A)
"""What new memory is filled with, run by run: nothing may depend on it."""
_MOST_ELEMENTS = 20_000
Watching = Callable[..., contextlib.AbstractContextManager[Watch]]


@dataclasses.dataclass
class Verdict:
    """What came of a case."""

    differences: list[str] = dataclasses.field(default_factory=list)
    skipped: str = ""
    """Why nothing can be said of it: a fact that was found, not an opinion."""
    rows: int = 0
    """How many tensors were compared with their rows."""


def judge(case: Case, watching: Watching, bookkeeping: bool = True) -> Verdict:
    """Run a case plainly and watched, and compare; `bookkeeping` too, or only what it is of."""
    state = _state_of_torch()
    first, second = (_plain(case, fill) for fill in _FILLS[:2])
    found = difference(first, second)
    if found:
        return Verdict(skipped=f"not reproducible: {found}")
    try:
        watch, outcomes, rng = _watched(case, watching)
    except Exception:  # noqa: BLE001 - a case keeps what it raises: this is the watcher's
        return Verdict([f"watching raised: {traceback.format_exc()}"])
    verdict = Verdict()
    for run, outcome in enumerate(outcomes):
        facts = facts_of({**outcome, "rng": rng[run]})
        found = _difference(first, facts, bookkeeping)
        if found:
            verdict.differences.append(f"run {run}: {found}")
    verdict.differences += [f"complaint: {line}" for line in watch.complaints]
    if watch.has_rows and not verdict.differences:
        for run, outcome in enumerate(outcomes):
            _compare_rows(case, outcome, watch.rows_of(run), verdict)
    if _state_of_torch() != state:
        verdict.differences.append(f"left behind: {state} became {_state_of_torch()}")
    return verdict


def _difference(one: Any, other: Any, bookkeeping: bool) -> str:
    if bookkeeping:
        return difference(one, other)
    return difference(without_bookkeeping(one), without_bookkeeping(other))


def _plain(case: Case, fill: int) -> Any:
    inputs = case.prepare()
    with _run(fill):
        outcome = case.run(inputs)
        rng = _random_state()
    return facts_of({**outcome, "rng": rng})


def _watched(case: Case, watching: Watching) -> tuple[Watch, list[Outcome], list[Any]]:
    """All watched runs; only what comes after them looks at the results."""
    inputs = [case.prepare() for _ in range(RUNS)]
    outcomes, rng = [], []
    with _run(_FILLS[2]), watching(case.own_steps) as watch:
        for given in inputs:
            seed()
            outcomes.append(case.run(given))
            rng.append(_random_state())
            watch.run_ended()
    return watch, outcomes, rng


@contextlib.contextmanager
def _run(fill: int) -> Iterator[None]:
    """The same surroundings for every run, but for what new memory is filled with."""
    seed()
    _fill_new_memory(fill)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    _fill_new_memory(0)


def _fill_new_memory(byte: int) -> None:
    """Have the C library fill what it allocates, so that reading it is noticed."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, byte)


def _random_state() -> list[Any]:
    return [torch.get_rng_state(), str(random.getstate()), np.random.get_state()[1].tobytes()]


def _state_of_torch() -> tuple[Any, ...]:
    """What watching must leave as it found it."""
    return (
        torch.is_grad_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        str(torch._C._dispatch_tls_local_include_set()),
        str(torch._C._dispatch_tls_local_exclude_set()),
        torch.nn.Module.__call__.__qualname__,
        torch.autograd._engine_run_backward.__qualname__,
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch._C._autograd._saved_tensors_hooks_is_enabled(),
        torch.is_inference_mode_enabled(),
    )


def _compare_rows(case: Case, outcome: Outcome, rows: list[ValueStats], verdict: Verdict) -> None:
    """Every tensor that an operator made must have a row, with the numbers NumPy computes."""
    seen: set[Any] | None = None
    for part in case.rows_of:
        for tensor in tensors_in(outcome.get(part)):
            if not has_numbers(tensor) or tensor.numel() > _MOST_ELEMENTS:
                continue
            verdict.rows += 1
            wrong = _wrong_rows(tensor, rows)
            if wrong is None:
                continue
            if _may_be_built_by_pieces(tensor, rows):
                continue
            seen = _observed(case) if seen is None else seen
            if identity_of(tensor) in seen:
                kind = f"{tensor.dtype} {tuple(tensor.shape)}"
                verdict.differences.append(f"rows of {part}, {kind}: {wrong}")


def _may_be_built_by_pieces(tensor: Tensor, rows: list[ValueStats]) -> bool:
    """Whether operators wrote to parts of such a tensor, so that none has all of it as output.

    Some formulas of gradients do so, and return the whole at once under a mode: then the observer
    below would see what the plain program never has.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    return any(
        found.call.node.op_type.endswith("_")
        and found.dtype == dtype
        and math.prod(found.shape) < tensor.numel()
        for found in rows
    )


def _wrong_rows(tensor: Tensor, rows: list[ValueStats]) -> str | None:
    """None if some operator's output has this tensor's row; otherwise what the last one has."""
    expected = expected_row(tensor)
    kind = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
    alike = [found for found in rows if (found.dtype, found.shape) == kind]
    found = [wrong_numbers(row.row, expected) for row in reversed(alike)]
    if not alike:
        return "no operator has a row of this kind"
    if any(not wrong for wrong in found):
        return None
    return f"{alike[-1].call.node.op_type}: {', '.join(found[0])}"


def _observed(case: Case) -> set[Any]:
    """What operators returned in a run of the case that opscope had no part in."""
    inputs = case.prepare()
    observer = Observer()
    outcome: Outcome = {}
    with _run(_FILLS[0]), observer:
        attempt(outcome, "all", lambda: case.run(inputs))
    return observer.seen
