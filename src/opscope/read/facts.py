"""Facts that only the training itself knew, `rank_N/facts.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscope.events import FeatureFact, GroupFact, ParameterFact, UpdateFact
from opscope.read.checked import CALLS, SLOTS, SMALL, Fields, checked_lines
from opscope.rundir import layout

_FEATURE_NUMBERS = 6


@dataclass
class StepFacts:
    """The facts noted of one step."""

    updates: list[Sequence[ParameterFact]] = field(default_factory=list)
    """The treatment of parameters, for each time an optimizer was about to step."""
    bad_inputs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By call: inputs that were seen to hold NaN or Inf though no row says so."""
    not_finite: list[UpdateFact] = field(default_factory=list)
    """Facts on what was not finite as optimizers were about to step."""
    groups: list[GroupFact] = field(default_factory=list)
    """The settings of the optimizers that were about to step."""
    features: list[FeatureFact] = field(default_factory=list)
    """The features of inputs as they had been up to it."""
    equal_rows: Sequence[str] = ()
    """Weights whose rows were all alike."""
    raised: Sequence[int] = ()
    """Calls that ended in an exception."""
    taken: Sequence[int] = ()
    """Calls whose bad outputs the script took as numbers."""


@dataclass
class Facts:
    """The facts noted of all steps."""

    of_step: dict[int, StepFacts] = field(default_factory=dict)
    replicated_from: int | None = None
    """The step since which parameters are the same on every rank."""

    @property
    def has_parameters(self) -> bool:
        """True if it was noted what training does with its parameters."""
        return any(facts.updates for facts in self.of_step.values())

    @property
    def has_features(self) -> bool:
        """True if it was noted what the features of the data are like."""
        return any(facts.features for facts in self.of_step.values())


def read_facts(rank: Path) -> Facts:
    """Read the facts of a rank; there are none if nothing was watched."""
    reading = _FactLines()
    for _ in checked_lines(rank / layout.FACTS, reading.take):
        pass
    return reading.facts


class _FactLines:
    """Takes lines in their order, since one may be like another before it."""

    def __init__(self) -> None:
        self.facts = Facts()
        self._said: list[Sequence[ParameterFact]] = []

    def take(self, line: Fields) -> None:
        """Take in one line."""
        step = line.integer("step", -SMALL, SMALL)
        facts = self.facts.of_step.setdefault(step, StepFacts())
        if "like" in line:
            facts.updates.append(self._said[line.integer("like", below=len(self._said))])
        elif "parameters" in line:
            said = [_fact(line, item) for item in line.items("parameters")]
            self._said.append(said)
            facts.updates.append(said)
        elif "bad_inputs" in line:
            facts.bad_inputs = dict(_bad_inputs(line, item) for item in line.items("bad_inputs"))
        elif "update" in line:
            call, *losses = line.integers("update", CALLS) or [0]
            names = tuple(str(name) for name in line.items("gradients"))
            facts.not_finite.append(UpdateFact(call, tuple(losses), names))
        elif "groups" in line:
            facts.groups += [_group(each) for each in line.objects("groups")]
        elif "features" in line:
            facts.features.append(_features(line))
        elif "equal_rows" in line:
            facts.equal_rows = [str(name) for name in line.items("equal_rows")]
        elif "raised" in line:
            facts.raised = line.integers("raised", CALLS)
        elif "taken" in line:
            facts.taken = line.integers("taken", CALLS)
        elif line.flag("replicated") and self.facts.replicated_from is None:
            self.facts.replicated_from = step


def _fact(line: Fields, item: object) -> ParameterFact:
    name, bits = item if type(item) is list and len(item) == 2 else (None, None)
    if type(name) is not str or type(bits) is not int or not 0 <= bits < 32:
        line.refuse("parameters", "must be a list of names, each with a number below 32")
    return ParameterFact.of(name, bits)


def _group(fields: Fields) -> GroupFact:
    return GroupFact(
        fields.text("optimizer"),
        tuple(sorted(fields.numbers("settings").items())),
        tuple(str(name) for name in fields.items("parameters")),
        fields.integer("total"),
        fields.flag("alone"),
        fields.flag("fresh", False),
    )


def _bad_inputs(line: Fields, item: object) -> tuple[int, list[int]]:
    numbers = item if type(item) is list and item else [-1]
    if (
        not all(type(n) is int and 0 <= n < CALLS for n in numbers)
        or max(numbers[1:], default=0) >= SLOTS
    ):
        line.refuse("bad_inputs", "must be a list of calls, each with slots")
    return numbers[0], numbers[1:]


def _features(line: Fields) -> FeatureFact:
    whole, numbers = line.integers("features"), line.numbers("numbers")
    if len(whole) != _FEATURE_NUMBERS or not numbers.keys() >= {"value", "least", "most"}:
        line.refuse("features", "must be six numbers, with value, least and most beside them")
    node, slot, samples, features, small, large = whole
    return FeatureFact(
        node,
        slot,
        samples,
        features,
        tuple(line.integers("constant")),
        numbers["value"],
        (small, numbers["least"]),
        (large, numbers["most"]),
    )
