"""Ranks side by side: how each stands, and where one first differs from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opscope.events import TRAINING_GRAPH, Node, Phase
from opscope.judge.history import digests
from opscope.judge.table import Table
from opscope.read.row_store import Records
from opscope.stats.record import OUTPUT, bad_among
from opscope.views.rank_view import RankView
from opscope.views.strip import gradient_norms

if TYPE_CHECKING:
    from opscope.views.watch_answers import RankDifference, RankRow, RanksCompared

_MOST_STEPS = 300
"""Steps that are compared; of more, some in between are looked at only where it matters."""
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def compare_ranks(views: Sequence[RankView]) -> RanksCompared:
    """All ranks, and the first difference of each kind, the earliest first."""
    recorded = [set(view.recorded_steps) for view in views]
    common = sorted(set.intersection(*recorded)) if recorded else []
    differences = list(_differences(views, common)) if len(views) > 1 else []
    differences.sort(key=lambda found: found["step"])
    return {
        "ranks": [_row(view) for view in views],
        "differences": differences,
        "steps": len(common),
    }


def _row(view: RankView) -> RankRow:
    steps = view.recorded.steps
    losses = [loss.value for record in steps[-1:] for loss in record.losses]
    norms = gradient_norms(view)
    return {
        "rank": view.rank,
        "state": view.recorded.state.kind,
        "last_step": steps[-1].step if steps else None,
        "loss": losses[-1] if losses else None,
        "gradient_norm": norms[max(norms)] if norms else None,
        "hits": len(view.hits),
        "nodes": len(view.nodes),
    }


# ---------------------------------------------------------------------- differences

Finder = Callable[[Sequence["_OfRank"], int], "RankDifference | None"]


def _differences(views: Sequence[RankView], common: Sequence[int]) -> Iterator[RankDifference]:
    ranks = [_OfRank(view) for view in views]
    yield from _behind(views)
    for find in (_bad_values, _other_weights, _other_nodes):
        found = _first(ranks, common, find)
        if found is not None:
            yield found


def _first(ranks: Sequence[_OfRank], steps: Sequence[int], find: Finder) -> RankDifference | None:
    """The first step with a difference; steps that were passed over are looked at before it."""
    stride = max(1, -(-len(steps) // _MOST_STEPS))
    for place in range(0, len(steps), stride):
        if find(ranks, steps[place]) is None and place + stride < len(steps):
            continue
        for step in steps[max(0, place - stride + 1) : place + stride]:
            found = find(ranks, step)
            if found is not None:
                return found
    return None


class _OfRank:
    """The numbers of a rank that are compared, step by step."""

    def __init__(self, view: RankView) -> None:
        self.view = view
        self.was_alike: set[str] = set()
        """Parameters that were the same on every rank in some step."""
        self.harmless = [note["node"] for note in view.notes if isinstance(note.get("node"), int)]
        """Nodes whose NaN and Inf got nowhere: they are noted once, and no hits."""
        self._table = Table(view.nodes.get, is_ignored=lambda node: False)
        self._table.learn(max(view.nodes, default=-1) + 1)

    def rows(self, step: int) -> Records:
        """The rows of a step that belong to training, in the order of execution."""
        rows = self.view.rows(step)
        wanted = [node.id for node in self.view.nodes.values() if _is_training(node)]
        rows = rows[np.isin(rows["node"], wanted)]
        return rows[np.argsort(rows["call"], kind="stable")]

    def weights(self, step: int) -> dict[str, str]:
        """By parameter a digest of its numbers when the step first used it."""
        rows = self.view.rows(step)
        calls = self.view.recorded.calls(step, rows)
        places, numbers = self._table.parameter_rows(rows, calls)
        return digests([self._table.parameters[n] for n in numbers.tolist()], rows[places])

    def user_of(self, parameter: str) -> Node | None:
        """The node that first reads a parameter."""
        number = self._table.number_of(parameter)
        return None if number is None else self._table.first_use[number]


def _is_training(node: Node) -> bool:
    return node.graph == TRAINING_GRAPH and node.phase in _PHASES


def _behind(views: Sequence[RankView]) -> Iterator[RankDifference]:
    """A rank that ended before the others."""
    lasts = {view.rank: view.recorded.steps[-1].step for view in views if view.recorded.steps}
    if len(lasts) < 2 or max(lasts.values()) - min(lasts.values()) < 2:
        return
    rank, step = min(lasts.items(), key=lambda item: item[1])
    what = f"its last step is {step}, others have come to {max(lasts.values())}"
    yield _difference("steps", step, rank, None, "", what)


class _Bad(NamedTuple):
    call: int
    rank: int
    node: int


def _bad_values(ranks: Sequence[_OfRank], step: int) -> RankDifference | None:
    """NaN or Inf on some ranks: the operator that has it first."""
    found = []
    for each in ranks:
        rows = each.rows(step)
        harmless = np.isin(rows["node"], each.harmless)
        bad = rows[(rows["io"] == OUTPUT) & bad_among(rows) & ~harmless]
        if len(bad):
            found.append(_Bad(int(bad["call"][0]), each.view.rank, int(bad["node"][0])))
    if not found:
        return None
    first = min(found)
    node = _view(ranks, first.rank).nodes[first.node]
    others = len(ranks) - len(found)
    has = "has" if others == 1 else "have"
    where = f"{others} of {len(ranks)} ranks {has} none in this step" if others else "as on all"
    return _difference("not_finite", step, first.rank, node, "", f"NaN or Inf; {where}")


def _other_weights(ranks: Sequence[_OfRank], step: int) -> RankDifference | None:
    """A parameter that was the same on every rank and no longer is."""
    weights = [each.weights(step) for each in ranks]
    common = set.intersection(*(set(each) for each in weights))
    for name in weights[0]:
        if name not in common:
            continue
        odd = _odd_one([each[name] for each in weights])
        if odd is None:
            ranks[0].was_alike.add(name)
        elif name in ranks[0].was_alike:
            node = ranks[odd].user_of(name)
            what = "its numbers were the same on every rank before, and differ from here on"
            return _difference("weights", step, ranks[odd].view.rank, node, name, what)
    return None


def _other_nodes(ranks: Sequence[_OfRank], step: int) -> RankDifference | None:
    """A rank that ran other operators than the others."""
    ran = [_names(each, step) for each in ranks]
    odd = _odd_one([frozenset(each) for each in ran])
    if odd is None:
        return None
    usual = next(each for each in ran if frozenset(each) != frozenset(ran[odd]))
    rank = ranks[odd].view.rank
    for name, number in ran[odd].items():
        if name not in usual:
            node = ranks[odd].view.nodes[number]
            return _difference("nodes", step, rank, node, "", "the other ranks did not run it")
    missing = next(name for name in usual if name not in ran[odd])
    found = _difference("nodes", step, rank, None, "", "it did not run this, others did")
    return {**found, "name": missing}


def _names(of: _OfRank, step: int) -> Mapping[str, int]:
    """The nodes that a step ran, in the order of execution: name → id."""
    nodes = of.view.nodes
    names: dict[str, int] = {}
    for number in of.rows(step)["node"].tolist():
        names.setdefault(nodes[number].name, number)
    return names


def _odd_one(of_ranks: Sequence[Hashable]) -> int | None:
    """The place of the first that is not as most are; of two, the second."""
    counts = Counter(of_ranks)
    if len(counts) == 1:
        return None
    usual = max(counts, key=lambda one: (counts[one], -of_ranks.index(one)))
    return next(place for place, one in enumerate(of_ranks) if one != usual)


def _view(ranks: Sequence[_OfRank], rank: int) -> RankView:
    return next(each.view for each in ranks if each.view.rank == rank)


def _difference(
    kind: str, step: int, rank: int, node: Node | None, parameter: str, what: str
) -> RankDifference:
    where = node.stack.where if node is not None else None
    return {
        "kind": kind,
        "step": step,
        "rank": rank,
        "node": None if node is None else node.id,
        "name": "" if node is None else node.name,
        "parameter": parameter,
        "where": "" if where is None else f"{where.file}:{where.line}",
        "what": what,
    }
