"""The native hook against Python alone: what sinks are told is the same, program by program.

The hook sees to known call sites; `capture/fallback.py` is the one description of what it must do.
So every program here runs with the hook and without, and everything is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from helpers import models, twice
from helpers.hook_programs import STEPS
from helpers.hook_programs_unusual import PROGRAMS
from helpers.models import MODELS
from helpers.twice import STATS, VALUES, Facts, capturing, watch, watch_twice
from opscope.messages import forget_said
from opscope.stats.memory import PlainMemory

pytestmark = [twice.needs_hook, pytest.mark.usefixtures("few_objects")]

EVERYTHING: dict[str, Callable[[], Any]] = {
    **{train.__name__: train for train in MODELS},
    **PROGRAMS,
}
NATIVE_SHARE = {
    "threads_in_turns": 0.0,  # several threads: Python sees to all of it
    "recreated_models": 0.3,  # every step has call sites of its own
    "copied_model": 0.5,
    "checkpoints": 0.5,
    "checkpointed": 0.5,  # what runs again in backward is Python's
    "lstm": 0.5,
    "saved_tensors": 0.5,
}
"""How many of the calls after step 1 must have been handled natively, where it is not most."""
MOST = 0.7
KNOWN_BUGS = {
    "subclasses": "as_subclass makes a tensor unseen",
}


def programs() -> list[Any]:
    """All of them; what is known to go wrong is marked."""
    return [
        pytest.param(
            run,
            id=name,
            marks=[pytest.mark.xfail(reason=KNOWN_BUGS[name], strict=name not in UNSURE)]
            if name in KNOWN_BUGS
            else [],
        )
        for name, run in EVERYTHING.items()
    ]


BOTH = VALUES | STATS
UNSURE = ("subclasses",)
"""Where it goes wrong depends on addresses."""


@pytest.fixture(autouse=True)
def four_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "STEPS", STEPS)
    forget_said()


def warm_up(run: Callable[[], Any]) -> None:
    """Python 3.11 moves the place of a call (`f_lasti`) once it knows the function well."""
    for _ in range(3):
        run()


def same_results(one: Facts, other: Facts) -> None:
    """What the program itself has computed."""
    if isinstance(one.result, models.Trained):
        models.assert_identical(one.result, other.result)
    else:
        assert one.result == other.result


@pytest.mark.parametrize("run", programs())
def test_the_hook_tells_what_python_tells(run, capsys) -> None:
    warm_up(run)
    one, other = watch_twice(run)
    same_results(one, other)
    twice.assert_same_facts(one, other)
    assert len(one.rows) >= 50
    assert one.native_share() >= NATIVE_SHARE.get(run.__name__, MOST)
    assert other.counts[-1][0] == 0
    assert "internal error" not in capsys.readouterr().err


def test_torch_does_not_tell_of_what_operators_do_inside() -> None:
    """It would of two calls in three; how that is put off depends on the version of torch."""
    facts = watch(models.gpt, native=True)
    told, shown = facts.told[-1] - facts.told[1], facts.counts[-1][0] - facts.counts[1][0]
    assert shown < told < 1.6 * shown


def test_a_capture_that_begins_within_another_takes_the_hook_over(capsys) -> None:
    """What the first does meanwhile, such as using other memory, is not the second's business."""
    run = PROGRAMS["aliases"]
    alone = watch(run, native=True)
    first, second = twice._Listener(STATS), twice._Listener(STATS)
    with capturing(first, native=True) as outer:
        with capturing(second, native=True):
            outer._pipeline.meter.use(PlainMemory())
            run()
        run()
    assert len(second.facts.rows) >= 0.9 * len(alone.rows)
    assert all(row.count for row in second.facts.rows.values())
    assert second.facts.counts[-1][0] > 0
    assert "internal error" not in capsys.readouterr().err


LOOSE_ENDS = (
    *("sparse_embedding", "storage_games", "subclasses", "function_transforms"),
    *("checkpointed", "checkpoints"),
)
"""Where tensors appear in backward that cannot be told to be known ones."""


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_hook_sees_the_program_as_it_is(name, capsys) -> None:
    run = EVERYTHING[name]
    expected = run()
    facts = watch(run, native=True)
    if isinstance(expected, models.Trained):
        models.assert_identical(facts.result, expected)
    else:
        assert facts.result == expected
    assert facts.native_share() >= NATIVE_SHARE.get(name, MOST)
    assert "internal error" not in capsys.readouterr().err
    if name not in LOOSE_ENDS:
        # Python's mode sees every copy of a tensor being made: what it knows, the hook must know.
        known = loose_inputs(watch(run, native=False))
        found = loose_inputs(facts)
        assert {name for name in found.keys() & known.keys() if found[name] > known[name]} == set()


def loose_inputs(facts: Facts) -> dict[str, int]:
    """How many inputs of each operator of backward come from nowhere."""
    return {
        name: sum(source.startswith("outside") for source in sources)
        for step in facts.steps[1:]
        for name, sources in step.sources.items()
        if name.startswith("Gradients/")
    }


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gpt", VALUES),
        ("hooked", VALUES | STATS),
        ("copy_slices", VALUES),
        ("pieces", VALUES | STATS),
    ],
)
def test_values_that_the_hook_hands_out_are_those_of_python(name, wanted) -> None:
    run = EVERYTHING[name]
    warm_up(run)
    one, other = watch_twice(run, wanted)
    same_results(one, other)
    twice.assert_same_facts(one, other)
    assert len(one.values) > 100
    assert bool(one.rows) == bool(wanted & STATS)
    assert one.native_share() >= NATIVE_SHARE.get(name, MOST)


def test_an_operator_of_others_is_looked_into_with_and_without_gradients() -> None:
    """Autograd has no kernel for it, so what it runs is as visible as itself, if it writes."""
    library = torch.library.Library("ward_inside", "DEF")
    library.define("twice_(Tensor(a!) x) -> ()")

    def twice(x: torch.Tensor) -> None:
        x.copy_(x.sin().asinh() * 2)

    library.impl("twice_", twice, "CPU")

    def run() -> object:
        torch.manual_seed(0)
        layer = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(STEPS):
            x = torch.randn(3, 2)
            torch.ops.ward_inside.twice_(x)
            with torch.no_grad():
                torch.ops.ward_inside.twice_(x)
            layer(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return layer.weight.tolist()

    try:
        expected = run()
        facts = watch(run, native=True)
    finally:
        library._destroy()
    assert facts.result == expected
    seen = Counter(node["op"] for node in facts.nodes)
    assert seen["ward_inside.twice_.default"] >= 2
    assert seen["aten.asinh.default"] == seen["ward_inside.twice_.default"]
