"""The values a watchpoint looks at: counted, listed, shown as a tree, and changed by ticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.events import Node
from opscope.judge.condition import TRAINING, WEIGHT
from opscope.judge.selection import is_of_class
from opscope.judge.table import Table
from opscope.judge.watchpoint import Watchpoint
from opscope.views.rank_view import RankView
from opscope.views.tree import matches_text

if TYPE_CHECKING:
    from opscope.views.watch_answers import Selected, SelectedScope, SelectedValue, Ticked

_TICKS = re.compile(r"\^\(\?:(.+)\)", re.DOTALL)
_GLOB = re.compile(r"([*?[])")


class _Value(NamedTuple):
    node: Node
    parameter: str


class Selecting:
    """The values a watchpoint could look at on one rank, and those that it does."""

    def __init__(self, view: RankView, watchpoint: Watchpoint) -> None:
        self._view = view
        self._watchpoint = watchpoint
        table = Table(view.nodes.get, is_ignored=lambda node: False)
        table.watch([watchpoint])
        table.learn(max(view.nodes, default=-1) + 1)
        self.about, self.values, self.on = _possible(table, watchpoint, view)

    def answer(
        self, *, text: str = "", scope: str | None = None, first: int = 0, count: int = 100
    ) -> Selected:
        """List what is directly in a scope, or what matches a text."""
        shown = self._in_scope(scope) if scope is not None else self._matching(text)
        page = shown if scope is not None else shown[first : first + count]
        return {
            "about": self.about,
            "total": len(self.values),
            "selected": int(self.on.sum()),
            "muted": int(self._without_mute().sum() - self.on.sum()),
            "found": len(shown),
            "scopes": self._scopes_in(scope) if scope is not None else [],
            "values": [self._line(place) for place in page],
        }

    def ticked(self, *, on: bool, scope: str | None = None, nodes: Collection[int] = ()) -> Ticked:
        """The selection with the values of a scope or of some nodes taken in or left out."""
        if self.about == TRAINING:
            raise OpscopeError(f"{self._watchpoint.condition.abbr} is about training as a whole")
        wanted = self.on.copy()
        for place, value in enumerate(self.values):
            if value.node.id in nodes or (scope is not None and _is_in(value.node.scope, scope)):
                wanted[place] = on
        return self._written(wanted)

    # ------------------------------------------------------------------ lists

    def _line(self, place: int) -> SelectedValue:
        node, parameter = self.values[place]
        on = bool(self.on[place])
        return {"node": node.id, "name": node.name, "parameter": parameter, "on": on}

    def _matching(self, text: str) -> Sequence[int]:
        return [
            place
            for place, (node, parameter) in enumerate(self.values)
            if matches_text(node, text) or text.lower() in parameter.lower()
        ]

    def _in_scope(self, scope: str) -> Sequence[int]:
        return [place for place, value in enumerate(self.values) if value.node.scope == scope]

    def _scopes_in(self, scope: str) -> list[SelectedScope]:
        """The scopes directly in one, if there is anything to select in them."""
        tree = self._view.scopes
        numbers = {name: number for number, name in enumerate(tree.names)}
        if scope not in numbers:
            return []
        total, selected = self._in_scopes(np.ones(len(self.on), bool)), self._in_scopes(self.on)
        return [
            {
                "name": tree.names[number],
                "label": tree.names[number].rpartition("/")[2],
                "total": int(total[number]),
                "selected": int(selected[number]),
            }
            for number in tree.children(numbers[scope])
            if total[number]
        ]

    def _in_scopes(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count how many of some values are in each scope, with the scopes in it."""
        tree = self._view.scopes
        nodes = [self.values[place].node.id for place in np.flatnonzero(chosen)]
        places = tree.of_node[nodes] if nodes else np.empty(0, np.int64)
        found = np.bincount(places[places >= 0], minlength=len(tree.names)).astype(np.int64)
        for number in range(len(tree.names) - 1, 0, -1):
            found[tree.parents[number]] += found[number]
        return found

    # ------------------------------------------------------------------ ticks

    def _written(self, wanted: NDArray[np.bool_]) -> Ticked:
        """The shortest selection that means just these values."""
        select = dict(self._watchpoint.select.given())
        regex = select.get("regex", "")
        if _TICKS.fullmatch(regex):
            del select["regex"]
            regex = ""
        base = self._matches(select)
        if (wanted & ~base).any():  # more than its words mean: these give way to ticks
            select = {name: text for name, text in select.items() if name == "class"}
            regex, base = "", self._matches(select)
        mute = self._pieces(base & ~wanted, base, _mute_scope, self._mute_value)
        if not mute:
            return {"select": select, "mute": []}
        ticks = self._pieces(wanted, base, _tick_scope, self._tick_value)
        if regex or not ticks or len(mute) <= len(ticks) or not self._is_exact(ticks, wanted, base):
            return {"select": select, "mute": mute}
        return {"select": {**select, "regex": f"^(?:{'|'.join(ticks)})"}, "mute": []}

    def _matches(self, select: dict[str, str]) -> NDArray[np.bool_]:
        """Tell which values some words mean, nothing being muted."""
        words = {("cls" if name == "class" else name): text for name, text in select.items()}
        bare = replace(self._watchpoint.select, cls="", node="", regex="", op_type="", scope="")
        bare = replace(bare, line="", parameter="")
        chosen = replace(self._watchpoint, select=replace(bare, **words), mute=())
        return Selecting(self._view, chosen).on

    def _without_mute(self) -> NDArray[np.bool_]:
        if not self._watchpoint.mute:
            return self.on
        return Selecting(self._view, replace(self._watchpoint, mute=())).on

    def _pieces(
        self,
        chosen: NDArray[np.bool_],
        base: NDArray[np.bool_],
        of_scope: Callable[[str], str],
        of_value: Callable[[_Value], str],
    ) -> list[str]:
        """Patterns for some values: one for each scope that they are all of, else for each."""
        tree = self._view.scopes
        full = self._in_scopes(base) == self._in_scopes(chosen)
        filled = self._in_scopes(chosen) > 0
        pieces: dict[str, None] = {}
        for place in np.flatnonzero(chosen):
            value = self.values[int(place)]
            scope = int(tree.of_node[value.node.id])
            whole = -1
            while scope > 0:
                if full[scope] and filled[scope]:
                    whole = scope
                scope = int(tree.parents[scope])
            pieces[of_scope(tree.names[whole]) if whole > 0 else of_value(value)] = None
        return list(pieces)

    def _is_exact(
        self, ticks: Sequence[str], wanted: NDArray[np.bool_], base: NDArray[np.bool_]
    ) -> bool:
        """Tell whether ticks mean just the wanted values: parameters of a node share its name."""
        means = re.compile(f"^(?:{'|'.join(ticks)})")
        found = [means.search(value.node.name) is not None for value in self.values]
        return bool(((np.array(found, bool) & base) == wanted).all())

    def _mute_value(self, value: _Value) -> str:
        return value.parameter or _exactly(value.node.name)

    def _tick_value(self, value: _Value) -> str:
        return f"{re.escape(value.node.name)}$"


def _possible(
    table: Table, watchpoint: Watchpoint, view: RankView
) -> tuple[str, list[_Value], NDArray[np.bool_]]:
    """Return what a watchpoint is about, all it could look at, and which of that it does."""
    if watchpoint.condition.target == TRAINING:
        return TRAINING, [], np.zeros(0, bool)
    if watchpoint.cls == WEIGHT:
        pairs = zip(table.first_use, table.parameters, strict=True)
        values = [_Value(node, name) for node, name in pairs]
        return (
            "parameters",
            values,
            table.weights(watchpoint, np.arange(len(values), dtype=np.int32)),
        )
    values = [
        _Value(node, "")
        for node in view.nodes.values()
        if table.is_watched(node) and is_of_class(watchpoint.condition, watchpoint.cls, node)
    ]
    on = [any(table.selects(watchpoint, v.node, slot) for slot in _slots(v.node)) for v in values]
    return "values", values, np.array(on, bool)


def _slots(node: Node) -> range:
    return range(max(1, len(node.outputs)))


def _is_in(scope: str, outer: str) -> bool:
    return not outer or scope == outer or scope.startswith(f"{outer}/")


def _tick_scope(scope: str) -> str:
    return f"{re.escape(scope)}/"


def _mute_scope(scope: str) -> str:
    return f"{_escaped(scope)}/*"


def _escaped(name: str) -> str:
    return _GLOB.sub(r"[\1]", name)


def _exactly(name: str) -> str:
    """A glob that only this name matches; without any sign it would mean the ends of names too."""
    escaped = _escaped(name)
    if escaped != name:
        return escaped
    at = next((place for place, letter in enumerate(name) if letter.isalnum()), 0)
    return f"{name[:at]}[{name[at]}]{name[at + 1 :]}"
