"""Judges training as a whole, step after step: parameters, gradients, evaluations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import FeatureFact, GroupFact, Node, ParameterFact, Phase
from opscope.judge.condition import TRAINING
from opscope.judge.findings import Findings
from opscope.judge.history import ParameterHistory
from opscope.judge.hits import Hit
from opscope.judge.modes import is_batch_norm, is_dropout, stands_still, trains_batch_norm
from opscope.judge.selection import weight_of
from opscope.judge.table import KindOf, Table
from opscope.judge.training_check import SeenStep, TrainingCheck
from opscope.judge.watchpoint import Watchpoint
from opscope.stats.record import ROW_DTYPE

Records = NDArray[np.void]
_FACTS_EVERY_STEP = 32
_FACTS_EVERY = 64
_FACTS_KEPT = 8


class TrainingJudge:
    """Keeps what conditions on training need, and asks them once per step."""

    def __init__(
        self,
        table: Table,
        rank: Callable[[], int],
        findings: Findings | None = None,
        kind_of: KindOf = lambda number: None,
    ) -> None:
        self.history = ParameterHistory()
        self.table = table
        self.rank = rank
        self.kind_of = kind_of
        """The number in a row's `shape` → dtype and shape."""
        self.facts: dict[str, ParameterFact] = {}
        """By parameter: what training last did with it."""
        self.frozen: list[str] = []
        """The parameters that are frozen, and that an optimizer has."""
        self.groups: dict[int, list[GroupFact]] = {}
        """Step → the settings of the optimizers that step in it, until it has been checked."""
        self.features: list[FeatureFact] = []
        """Facts on the inputs that were looked at."""
        self.equal_rows: list[Collection[str]] = []
        """The weights whose rows were all alike, in each of the steps that some were in."""
        self.frozen_in: dict[int, frozenset[str]] = {}
        """Step → what was frozen at all its updates, of the last steps that were asked about."""
        self.ask_until = -1
        """Facts are wanted of every step up to this one."""
        self.compared: tuple[int, int] = (-1, -1)
        """The last two steps that parameters were seen in."""
        self.owned_steps: dict[str, int] = {}
        """By parameter: how often its optimizer has stepped."""
        self.without_gradient: dict[str, int] = {}
        """By parameter: how often that was without a gradient."""
        self.in_eval: dict[str, int] = {}
        """By parameter: how often that was while its network was in eval mode."""
        self.with_gradient: dict[str, int] = {}
        """By parameter that no optimizer owns: in how many steps it had a gradient."""
        self.asked: set[str] = set()
        """The weights of networks that are asked without gradients while training."""
        self.dropouts: dict[str, set[bool]] = {}
        """By scope of a dropout or batch norm: whether gradients were recorded where it ran."""
        self.dropout_nodes: dict[str, Node] = {}
        """By scope: the first of them that ran without."""
        self.norms: dict[str, set[bool]] = {}
        """By scope of a batch norm in train mode: whether its running statistics stand still."""
        self.evaluated_norms: dict[str, Node] = {}
        """By scope: the first batch norm in eval mode of an evaluation."""
        self.uses: tuple[NDArray[np.int32], Records] = np.empty(0, np.int32), np.empty(0, ROW_DTYPE)
        """The parameters that the last step used, by number, and their rows."""
        self._findings = findings
        self._checks: dict[int, TrainingCheck] = {}
        self._wired: Calls | None = None
        """The last step that all checks were asked about."""
        self._awake: list[TrainingCheck] = []
        """The checks that have something to say of steps that hang together like that one."""

    # ------------------------------------------------------------------ observing

    def wants_facts(self, step: int) -> bool:
        """Return whether to ask what training does with its parameters in this step."""
        regular = step < _FACTS_EVERY_STEP or step % _FACTS_EVERY == 0
        return regular or step <= self.ask_until

    def observe_facts(self, step: int, facts: Sequence[ParameterFact]) -> None:
        """Note what training does with each parameter, as an optimizer is about to step."""
        first = step not in self.frozen_in
        frozen = frozenset(fact.name for fact in facts if fact.frozen)
        self.frozen_in[step] = frozen if first else self.frozen_in[step] & frozen
        while len(self.frozen_in) > _FACTS_KEPT:
            del self.frozen_in[min(self.frozen_in)]
        for fact in facts:
            name = fact.name
            self.facts[name] = fact
            if fact.stepping:
                self.owned_steps[name] = self.owned_steps.get(name, 0) + 1
                if not fact.has_gradient:
                    self.without_gradient[name] = self.without_gradient.get(name, 0) + 1
                if fact.in_eval:
                    self.in_eval[name] = self.in_eval.get(name, 0) + 1
            elif first and fact.has_gradient and not fact.owned and not fact.frozen:
                self.with_gradient[name] = self.with_gradient.get(name, 0) + 1
        self.frozen = [name for name, fact in self.facts.items() if fact.frozen and fact.owned]

    def observe_groups(self, step: int, groups: Sequence[GroupFact]) -> None:
        """Note the settings of an optimizer that is about to step."""
        if groups:
            self.groups.setdefault(step, []).extend(groups)

    def observe_features(self, fact: FeatureFact) -> None:
        """Note what the features of an input are like."""
        self.features.append(fact)

    def observe_equal_rows(self, names: Collection[str]) -> None:
        """Note weights whose rows are all alike in the step under way."""
        self.equal_rows.append(names)

    def observe_parameters(self, step: int, numbers: NDArray[np.int32], records: Records) -> None:
        """Note the rows of parameters in a step that has ended."""
        self.compared = self.compared[1], step
        self.uses = numbers, records
        self.history.observe(numbers, records)

    def observe_node(self, node: Node) -> None:
        """Note what a new call site says of training."""
        if node.phase is Phase.FORWARD and not node.with_grad and node.module_class:
            self.asked.update(filter(None, map(weight_of, node.sources)))
        self._observe_dropout(node)
        self._observe_batch_norm(node)

    def _observe_dropout(self, node: Node) -> None:
        """Note a call site of dropout or batch norm in train mode, and whether it trains."""
        is_one = is_dropout(node) or trains_batch_norm(node)
        if not is_one or node.phase not in (Phase.FORWARD, Phase.EVAL):
            return
        if any(frame.file.endswith("utils/checkpoint.py") for frame in node.stack.frames):
            return
        self.dropouts.setdefault(node.scope, set()).add(node.with_grad)
        if not node.with_grad:
            self.dropout_nodes.setdefault(node.scope, node)

    def _observe_batch_norm(self, node: Node) -> None:
        if not is_batch_norm(node):
            return
        if trains_batch_norm(node):
            self.norms.setdefault(node.scope, set()).add(stands_still(node))
        elif not node.with_grad:
            self.evaluated_norms.setdefault(node.scope, node)

    # ------------------------------------------------------------------ checking

    def watch(self, watchpoints: Sequence[Watchpoint]) -> None:
        """Check these from now on; those that were checked before keep what they know."""
        before, self._checks, self._wired = self._checks, {}, None
        for watchpoint in watchpoints:
            make = watchpoint.condition.training
            known = before.get(watchpoint.id)
            if known is not None and known.watchpoint == watchpoint:
                self._checks[watchpoint.id] = known
            elif watchpoint.condition.target == TRAINING and make is not None:
                self._checks[watchpoint.id] = make(watchpoint, self)

    @property
    def checks(self) -> Sequence[TrainingCheck]:
        """The checks that are made."""
        return list(self._checks.values())

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Say what is wrong, now that a step has ended."""
        as_before = self._wired is not None and step.calls.is_wired_like(self._wired)
        if not as_before or self._findings is not None:
            self._wired, self._awake = step.calls, list(self._checks.values())
        for check in self._awake:
            if not (step.skipped and check.ignores_skipped):
                yield from check.check(step)
        if self._wired is step.calls:
            self._awake = [check for check in self._awake if not check.rests(step.calls)]
        self.groups.pop(step.step, None)

    def checked(self, watchpoint: Watchpoint, count: int = 1) -> None:
        """Count what has been checked, if anybody wants to know."""
        if self._findings is not None:
            self._findings.count(watchpoint, count)

    # ------------------------------------------------------------------ parameters

    def is_owned(self, name: str) -> bool:
        """Return whether an optimizer has a parameter, as far as is known."""
        fact = self.facts.get(name)
        return fact is None or fact.owned

    def is_trained(self, name: str) -> bool:
        """Return whether a parameter is known to be trained."""
        fact = self.facts.get(name)
        return fact is not None and not fact.frozen and fact.owned

    def has_changed(self, name: str) -> bool:
        """Return whether a parameter has ever been seen to change."""
        number, changed = self.table.number_of(name), self.history.changed_ever
        return number is not None and number < len(changed) and bool(changed[number])

    def first_use(self, name: str) -> Node | None:
        """Return the node that first read a parameter, if that is known."""
        number = self.table.number_of(name)
        return self.table.first_use[number] if number is not None else None
