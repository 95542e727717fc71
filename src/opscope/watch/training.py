"""What is checked of training as a whole: losses, parameters, gradients, evaluations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import (
    IO,
    Loss,
    Node,
    Outside,
    ParameterFact,
    Phase,
)
from opscope.stats.record import INPUT
from opscope.watch.conditions import training as conditions
from opscope.watch.history import History
from opscope.watch.hits import Hit
from opscope.watch.table import Table, is_ignored
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]
_FACTS_EVERY_STEP = 32
_FACTS_EVERY = 64
_FACTS_KEPT = 8
_DROPOUTS = frozenset(("native_dropout", "_fused_dropout", "bernoulli_", "feature_dropout"))
_NAMES_SHOWN = 3


class TrainingWatch:
    """Keeps what conditions on training need, and checks them once per step."""

    def __init__(self, table: Table, rank: Callable[[], int]) -> None:
        self.history = History()
        self._table = table
        self._rank = rank
        self._losses: dict[int, deque[float]] = {}
        self._facts: dict[str, ParameterFact] = {}
        self._frozen_in: dict[int, frozenset[str]] = {}
        """Step → what was frozen in it, of the last steps that were asked about."""
        self._ask_until = -1
        self._compared: tuple[int, int] = (-1, -1)
        """The last two steps that parameters were seen in."""
        self._owned_steps: dict[str, int] = {}
        self._without_gradient: dict[str, int] = {}
        self._with_gradient: dict[str, int] = {}
        self._uncleared: dict[str, int] = {}
        self._told: set[tuple[int, str]] = set()
        self._dropouts: dict[str, set[bool]] = {}
        self._dropout_nodes: dict[str, Node] = {}
        self._calls = Calls()
        self._old: dict[str, int] = {}
        """Parameter → the call that adds to a gradient from before the step."""

    # ------------------------------------------------------------------ observing

    def wants_facts(self, step: int) -> bool:
        """Whether to ask what training does with its parameters in this step."""
        regular = step < _FACTS_EVERY_STEP or step % _FACTS_EVERY == 0
        return regular or step <= self._ask_until

    def observe_facts(self, step: int, facts: Sequence[ParameterFact]) -> None:
        """What training does with each parameter, as an optimizer is about to step."""
        first = step not in self._frozen_in
        self._frozen_in[step] = frozenset(fact.name for fact in facts if fact.frozen)
        while len(self._frozen_in) > _FACTS_KEPT:
            del self._frozen_in[min(self._frozen_in)]
        for fact in facts:
            name = fact.name
            self._facts[name] = fact
            if fact.stepping:
                self._owned_steps[name] = self._owned_steps.get(name, 0) + 1
                if not fact.has_gradient:
                    self._without_gradient[name] = self._without_gradient.get(name, 0) + 1
            elif first and fact.has_gradient and not fact.owned and not fact.frozen:
                self._with_gradient[name] = self._with_gradient.get(name, 0) + 1

    def observe_parameters(self, step: int, numbers: NDArray[np.int32], records: Records) -> None:
        """The rows of parameters in a step that has ended."""
        self._compared = self._compared[1], step
        self.history.observe(numbers, records)

    def observe_node(self, node: Node) -> None:
        """A new call site: dropout is noted by where it is and whether gradients are recorded."""
        if node.op_type not in _DROPOUTS or node.phase not in (Phase.FORWARD, Phase.EVAL):
            return
        if any(frame.file.endswith("utils/checkpoint.py") for frame in node.stack.frames):
            return
        self._dropouts.setdefault(node.scope, set()).add(node.with_grad)
        if not node.with_grad:
            self._dropout_nodes.setdefault(node.scope, node)

    # ------------------------------------------------------------------ checking

    def check(
        self,
        watchpoint: Watchpoint,
        step: int,
        losses: Sequence[Loss],
        calls: Calls,
        records: Callable[[], Records],
    ) -> Iterator[Hit]:
        """What a watchpoint says at the end of a step."""
        match watchpoint.condition.abbr:
            case "LN":
                return self._loss_not_finite(watchpoint, step, losses)
            case "LS":
                return self._loss_spike(watchpoint, step, losses)
            case "PU":
                return self._unchanged(watchpoint, step)
            case "PO":
                return self._without_optimizer(watchpoint, step)
            case "PG":
                return self._without_gradients(watchpoint, step)
            case "GA":
                return self._not_cleared(watchpoint, step, calls, records)
            case "FC":
                return self._frozen(watchpoint, step)
            case "ED":
                return self._evaluation(watchpoint, step, calls)
        return iter(())

    def _loss_not_finite(self, w: Watchpoint, step: int, losses: Sequence[Loss]) -> Iterator[Hit]:
        for loss in losses:
            if conditions.loss_not_finite(loss.value, w.params):
                yield self._hit(w, step, f"the loss is {loss.value}", node=loss.node)

    def _loss_spike(self, w: Watchpoint, step: int, losses: Sequence[Loss]) -> Iterator[Hit]:
        for index, loss in enumerate(losses):
            window = self._losses.setdefault(index, deque(maxlen=int(w.params["window"])))
            above = conditions.loss_spike(loss.value, window, w.params)
            window.append(loss.value)
            if above is not None:
                message = f"the loss is {loss.value:.6g}, {above:.3g} deviations above its median"
                yield self._hit(w, step, message, node=loss.node)

    def _unchanged(self, w: Watchpoint, step: int) -> Iterator[Hit]:
        seen, changed = self.history.seen, self.history.changed_ever
        if changed.all() or seen.max() < w.params["steps_ge"]:
            return
        names = [
            name
            for number in np.flatnonzero(~changed).tolist()
            if conditions.never_changes(int(seen[number]), int(seen[number]), w.params)
            and self._is_trained(name := self._table.parameters[number])
        ]
        trained = [n for n in self._table.parameters[: len(seen)] if self._is_trained(n)]
        if names and len(names) == len(trained):
            message = (
                "none of {} has changed in "
                f"{int(w.params['steps_ge'])} steps: is the learning rate 0, are these the "
                "parameters that the optimizer has, does it step at all?"
            )
        else:
            # A bias may have a gradient that is 0 by nature, where it cancels out.
            names = [name for name in names if self._table.has_matrix(name)]
            message = f"never changed in {int(w.params['steps_ge'])} steps of training: {{}}"
        yield from self._about(w, step, names, message)

    def _is_owned(self, name: str) -> bool:
        fact = self._facts.get(name)
        return fact is None or fact.owned

    def _is_trained(self, name: str) -> bool:
        fact = self._facts.get(name)
        return fact is not None and not fact.frozen and fact.owned

    def _without_optimizer(self, w: Watchpoint, step: int) -> Iterator[Hit]:
        names = [
            name
            for name, steps in self._with_gradient.items()
            if conditions.without_optimizer(True, self._facts[name].owned, steps, w.params)
        ]
        message = "gradients, but no optimizer, so never trained: {}"
        yield from self._about(w, step, names, message)

    def _without_gradients(self, w: Watchpoint, step: int) -> Iterator[Hit]:
        names = [
            name
            for name, without in self._without_gradient.items()
            if conditions.without_gradient(without, self._owned_steps[name], w.params)
        ]
        if not names:
            return
        owned = [name for name, fact in self._facts.items() if fact.owned]
        trainable = [name for name in names if not self._facts[name].frozen]
        if len(names) == len(owned):
            message = "no gradient has reached any of {}: the optimizer trains nothing"
            yield from self._about(w, step, names, message)
        else:
            message = "in an optimizer, but no gradient has ever come: {}"
            yield from self._about(w, step, trainable, message)

    def _not_cleared(
        self,
        w: Watchpoint,
        step: int,
        calls: Calls,
        records: Callable[[], Records],
    ) -> Iterator[Hit]:
        if not calls.is_wired_like(self._calls):
            self._calls, self._old = calls, _old_gradients(calls)
        old = self._old
        if not old:
            self._uncleared.clear()
            return
        kept = _are_nonzero(records(), old)
        self._uncleared = {name: self._uncleared.get(name, 0) + 1 for name in old if name in kept}
        names = [
            name
            for name, steps in self._uncleared.items()
            if conditions.accumulated(steps, w.params) and self._is_owned(name)
        ]
        message = (
            "the gradients of {} are added to those of the step before: "
            "is optimizer.zero_grad() missing?"
        )
        yield from self._about(w, step, names, message, {n: calls.nodes[old[n]] for n in names})

    def _frozen(self, w: Watchpoint, step: int) -> Iterator[Hit]:
        changed = self.history.changed
        names = [
            name
            for name, fact in self._facts.items()
            if fact.frozen
            and fact.owned
            and (w.id, name) not in self._told
            and (number := self._table.number_of(name)) is not None
            and number < len(changed)
            and conditions.frozen_changes(fact.frozen, bool(changed[number]), w.params)
        ]
        if not names:
            return
        # It must have been frozen as the update was made, in the step before, and be so still.
        then, now = (self._frozen_in.get(at) for at in self._compared)
        if then is None or now is None:
            self._ask_until = step + 3
            return
        names = [name for name in names if name in then and name in now]
        message = (
            "meant to be frozen, but changed: {}; `requires_grad = False` on a module does "
            "nothing (requires_grad_(False) does), and an optimizer goes on with momentum, weight "
            "decay and old gradients"
        )
        yield from self._about(w, step, names, message)

    def _evaluation(self, w: Watchpoint, step: int, calls: Calls) -> Iterator[Hit]:
        for scope, node in self._dropout_nodes.items():
            both = len(self._dropouts[scope]) == 2
            if (w.id, scope) in self._told or not both or is_ignored(node):
                continue
            if node.phase is Phase.FORWARD and _is_trained_on(node, calls):
                continue
            if conditions.evaluation_differs(1, w.params):
                self._told.add((w.id, scope))
                message = (
                    f"dropout is on in an evaluation ({node.scope}): two passes over the same "
                    "batch differ; call model.eval(), or give F.dropout training=self.training"
                )
                yield self._hit(w, step, message, node=node)

    def ranks_differ(
        self, w: Watchpoint, step: int, digests: Sequence[Mapping[str, str]]
    ) -> Iterator[Hit]:
        """What a watchpoint says of parameters that are not the same on every rank."""
        common = set.intersection(*(set(of_rank) for of_rank in digests))
        names = [
            name
            for name in self._table.parameters
            if name in common
            and conditions.ranks_differ({r: d[name] for r, d in enumerate(digests)}, w.params)
        ]
        message = (
            "replicated, but not the same on every rank: {}; was a step run on model.module "
            "instead of the DDP model, or a gradient changed on one rank only?"
        )
        yield from self._about(w, step, names, message)

    # ------------------------------------------------------------------ hits

    def _about(
        self,
        w: Watchpoint,
        step: int,
        names: Sequence[str],
        message: str,
        nodes: Mapping[str, Node] | None = None,
    ) -> Iterator[Hit]:
        """One hit about some parameters, of which each is told of once."""
        fresh = [n for n in names if (w.id, n) not in self._told and self._is_selected(w, n)]
        if not fresh:
            return
        self._told.update((w.id, name) for name in fresh)
        node = (nodes or {}).get(fresh[0]) or self._first_use(fresh[0])
        yield self._hit(w, step, message.format(_listed(fresh)), node=node, parameter=fresh[0])

    def _is_selected(self, w: Watchpoint, name: str) -> bool:
        node = self._first_use(name)
        if node is None:
            return not w.select.given()
        muted = w.is_muted(node) or is_ignored(node) or name in w.mute
        return w.select.matches(node, name) and not muted

    def _first_use(self, name: str) -> Node | None:
        number = self._table.number_of(name)
        return self._table.first_use[number] if number is not None else None

    def _hit(
        self, w: Watchpoint, step: int, message: str, node: Node | None = None, parameter: str = ""
    ) -> Hit:
        io = IO.OUTPUT if node is not None else None
        return Hit(w, step, self._rank(), message, node, io, parameter=parameter)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{len(names)} parameter{'s' if len(names) > 1 else ''} ({shown}{more})"


def _is_trained_on(node: Node, calls: Calls) -> bool:
    """Whether a gradient comes of what a node made, as of samples for a critic, or it did not run.

    That is no evaluation, though no gradients are recorded of the node itself.
    """
    reached: set[int | None] = set()
    for call, later in enumerate(calls.nodes):
        slots = range(len(later.sources)) if reached else ()
        if later is node or any(calls.producer(call, slot) in reached for slot in slots):
            reached.add(call)
            if later.phase is Phase.BACKWARD:
                return True
    return not reached


def _old_gradients(calls: Calls) -> dict[str, int]:
    """Parameter → the call that adds to a gradient from before the step, if the last one does."""
    last = {node.gradient_of: call for call, node in enumerate(calls.nodes) if node.gradient_of}
    may_add = {node.gradient_of for node in set(calls.nodes) if _may_add_to_old(node)}
    found = {}
    for name, call in last.items():
        base = _base(call, calls) if name in may_add else None
        if base is not None:
            found[name] = base
    return found


def _may_add_to_old(node: Node) -> bool:
    """Whether a node has ever added a gradient to something from before a step."""
    if not node.gradient_of or not node.op.startswith("aten.add"):
        return False
    firsts = (sources[0] for sources in node.variants if sources)
    return any(isinstance(source, Outside) and source.kind == "outside" for source in firsts)


def _base(call: int, calls: Calls) -> int | None:
    """The first of the calls that have added up a gradient, if it adds to one from before."""
    gradient_of = calls.nodes[call].gradient_of
    while True:
        sources = calls.sources_of(call)
        source = sources[0] if sources else None
        if isinstance(source, Outside):
            adds = calls.nodes[call].op.startswith("aten.add")
            return call if adds and source.kind == "outside" else None
        before = calls.producer(call, 0)
        if before is None or calls.nodes[before].gradient_of != gradient_of:
            return None
        call = before


def _are_nonzero(records: Records, calls: Mapping[str, int]) -> set[str]:
    """Of which of these calls the first input held anything but zeros."""
    by_call = {call: name for name, call in calls.items()}
    rows = records[(records["io"] == INPUT) & (records["slot"] == 0)]
    rows = rows[np.isin(rows["call"], list(by_call))]
    return {by_call[int(row["call"])] for row in rows if row["zero"] < row["count"]}
