"""Writes to the run what only a running training can know, so that later checks know it too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.events import FeatureFact, GroupFact, ParameterFact, UpdateFact
from opscope.messages import say_once
from opscope.rundir import layout
from opscope.rundir.jsonlines import JsonLines

_KINDS = 64
"""So many different lines about parameters are told apart, to write each only once."""


class FactLog:
    """Appends facts to `facts.jsonl` of a rank, which is made with the first."""

    def __init__(self, run: Path | None, limit: int = 128 << 20) -> None:
        self._run = run
        self._limit = limit
        self._directory: Path | None = None
        self._lines: JsonLines | None = None
        self._written: dict[tuple[tuple[str, int], ...], int] = {}
        """The facts said of parameters, each with the number of the line that says it."""
        self._count = 0
        self._bad_inputs: dict[int, list[int]] = {}
        self._is_replicated = False

    def open(self, rank: int) -> None:
        """Take in the rank."""
        if self._run is not None:
            self._directory = layout.rank_directory(self._run, rank)

    def add_parameters(self, step: int, facts: Sequence[ParameterFact]) -> None:
        """Write what training does with its parameters, as an optimizer is about to step."""
        said = tuple((fact.name, fact.bits) for fact in facts)
        same = self._written.get(said)
        if same is not None:
            self._append({"step": step, "like": same})
            return
        if len(self._written) < _KINDS:
            self._written[said] = self._count
        self._count += 1
        self._append({"step": step, "parameters": [list(each) for each in said]})

    def add_groups(self, step: int, groups: Sequence[GroupFact]) -> None:
        """Write the settings of an optimizer that is about to step, if they are known."""
        found = [
            {
                "optimizer": group.optimizer,
                "settings": dict(group.settings),
                "parameters": list(group.parameters),
                "total": group.total,
                "alone": group.alone,
                "fresh": group.fresh,
            }
            for group in groups
        ]
        if found:
            self._append({"step": step, "groups": found})

    def add_bad_inputs(self, call: int, slots: Sequence[int]) -> None:
        """Note inputs of a call that were seen to hold NaN or Inf though no row says so."""
        self._bad_inputs[call] = list(slots)

    def add_update(self, step: int, update: UpdateFact) -> None:
        """Write what is not finite as an optimizer is about to step."""
        numbers = [update.call, *update.losses]
        self._append({"step": step, "update": numbers, "gradients": list(update.gradients)})

    def add_raised(self, step: int, calls: Sequence[int]) -> None:
        """Write which calls of a step have raised."""
        self._append({"step": step, "raised": list(calls)})

    def add_taken(self, step: int, calls: Sequence[int]) -> None:
        """Write of which calls of a step the script took bad outputs as numbers."""
        self._append({"step": step, "taken": list(calls)})

    def add_features(self, step: int, fact: FeatureFact) -> None:
        """Write what the features of an input have been like up to a step."""
        (small, least), (large, most) = fact.least, fact.most
        found = [fact.node, fact.slot, fact.samples, fact.features, small, large]
        numbers = {"value": fact.value, "least": least, "most": most}
        constant = list(fact.constant)
        self._append({"step": step, "features": found, "constant": constant, "numbers": numbers})

    def add_equal_rows(self, step: int, names: Sequence[str]) -> None:
        """Write the weights whose rows were all alike in a step."""
        self._append({"step": step, "equal_rows": list(names)})

    def add_replicated(self, step: int) -> None:
        """Write that from this step on parameters are the same on every rank."""
        if not self._is_replicated:
            self._is_replicated = True
            self._append({"step": step, "replicated": True})

    def end_step(self, step: int) -> None:
        """Write what was noted of a step."""
        if self._bad_inputs:
            noted, self._bad_inputs = self._bad_inputs, {}
            found = [[call, *slots] for call, slots in sorted(noted.items())]
            self._append({"step": step, "bad_inputs": found})

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _append(self, line: dict[str, Any]) -> None:
        if self._directory is None:
            return
        try:
            if self._lines is None:
                self._lines = JsonLines(self._directory / layout.FACTS, self._limit)
            self._lines.append_plain(line)
        except OSError as error:
            self._directory = None
            say_once(f"cannot write facts: {error.strerror or error}; checks will know less")
