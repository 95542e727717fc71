"""The view from one open scope: the box of its graph a node lies in."""

from __future__ import annotations

from opscope.events import Node

_BACKWARD = "Gradients"


class Outlook:
    """An open scope; with `backward`, what computes its gradients is seen as well."""

    def __init__(self, scope: str, backward: bool) -> None:
        self.scope = scope
        self._scopes = [scope]
        if backward:
            self._scopes.append(f"{_BACKWARD}/{scope}" if scope else _BACKWARD)
        self._seen: dict[str, str | None] = {}

    def inner(self, node: Node) -> str | None:
        """The scope of a node seen from the open one: "" for directly in it, None for outside."""
        if node.scope not in self._seen:
            self._seen[node.scope] = self._seen_from_here(node.scope)
        return self._seen[node.scope]

    def elsewhere(self, node: Node) -> str:
        """The outermost scope around a node that is not also around the open one."""
        ours, theirs = self.scope.split("/"), node.scope.split("/")
        shared = 0
        while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
            shared += 1
        return "/".join(theirs[: shared + 1])

    def box_of(self, node: Node) -> str:
        """The id of the box that a node lies in."""
        inner = self.inner(node)
        if inner == "":
            return f"n{node.id}"
        return f"e:{self.elsewhere(node)}" if inner is None else f"s:{inner}"

    def _seen_from_here(self, of: str) -> str | None:
        for scope in self._scopes:
            if of == scope:
                return ""
            if not scope:
                return of.partition("/")[0]
            if of.startswith(f"{scope}/"):
                child = of[len(scope) + 1 :].partition("/")[0]
                return f"{scope}/{child}"
        return None
