"""Scopes: the path of modules an operator runs in, kept by a patched `nn.Module.__call__`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

ROOT = "Default"


class _Loader:
    """What loads data: no module, whatever it is."""


_LOADER = _Loader()
_by_path: weakref.WeakValueDictionary[str, Scope] = weakref.WeakValueDictionary()


def scope_at(path: str) -> Scope | None:
    """The scope with this path, of the capture that made one last."""
    return _by_path.get(path)


class Scope:
    """One module position in the tree of calls; children are found by the module's identity."""

    __slots__ = ("__weakref__", "children", "module", "module_class", "path", "used_names")

    def __init__(self, path: str, module: Any, module_class: str) -> None:
        self.path = path
        self.module: Callable[[], nn.Module | None] = (
            weakref.ref(module) if module is not None else lambda: None
        )
        self.module_class = module_class
        self.children: dict[int, Scope] = {}
        self.used_names: set[str] = set()
        _by_path[path] = self

    def child(self, module: nn.Module, with_class: bool) -> Scope:
        """The scope of `module` called from here, made at its first call."""
        found = self.children.get(id(module))
        if found is not None and found.module() is module:
            return found
        parts = self._parts(module)
        name = "/".join(_part(attribute, cls, with_class) for attribute, cls in parts)
        scope = Scope(f"{self.path}/{self._unique(name)}", module, type(module).__name__)
        self.children[id(module)] = scope
        return scope

    def optimizer(self, optimizer: Any, with_class: bool) -> Scope:
        """The scope of an optimizer's step."""
        found = self.children.get(id(optimizer))
        if found is not None and found.module() is optimizer:
            return found
        name = self._unique(_part("optimizer", type(optimizer).__name__, with_class))
        scope = Scope(f"{self.path}/{name}", optimizer, type(optimizer).__name__)
        self.children[id(optimizer)] = scope
        return scope

    def data(self) -> Scope:
        """The scope of what loads data in this process."""
        found = self.children.get(id(_LOADER))
        if found is None:
            found = self.children[id(_LOADER)] = Scope(f"{self.path}/data", _LOADER, "")
        return found

    def _parts(self, module: nn.Module) -> list[tuple[str, str]]:
        """(attribute, class) per level from this scope's module down to `module`."""
        cls = type(module).__name__
        parent = self.module()
        if parent is None:
            return [("network", cls)]
        if not isinstance(parent, nn.Module):
            return [("unnamed", cls)]
        if parent is module:
            return [("self", cls)]
        for path, descendant in parent.named_modules():
            if descendant is module:
                return _levels(parent, path)
        return [("unnamed", cls)]

    def _unique(self, name: str) -> str:
        """`name`, or `name` with a number in its first attribute if it is taken."""
        candidate, number = name, 0
        attribute, dash, rest = name.partition("-")
        while candidate in self.used_names:
            number += 1
            candidate = f"{attribute}{number}{dash}{rest}"
        self.used_names.add(candidate)
        return candidate


def _levels(parent: nn.Module, path: str) -> list[tuple[str, str]]:
    levels: list[tuple[str, str]] = []
    current: Any = parent
    for attribute in path.split("."):
        current = current._modules[attribute]
        levels.append((attribute, type(current).__name__))
    return levels


def _part(attribute: str, cls: str, with_class: bool) -> str:
    return f"{attribute}-{cls}" if with_class else attribute
