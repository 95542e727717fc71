"""Scopes: the path of modules an operator runs in, kept by a patched `nn.Module.__call__`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

from opscope.names import level, optimizer_level

MOST_ALIKE = 64
"""So many modules with the same name and class are told apart below one scope."""
_UNNAMED = "unnamed"


class _Loader:
    """Stands for whatever loads data, which is no module."""


_LOADER = _Loader()
_by_path: weakref.WeakValueDictionary[str, Scope] = weakref.WeakValueDictionary()


def scope_at(path: str) -> Scope | None:
    """The scope with this path, of the capture that made one last."""
    return _by_path.get(path)


class Scope:
    """One module position in the tree of calls; children are found by the module's identity."""

    __slots__ = (
        *("__weakref__", "_key", "_numbers", "_parts_seen", "_paths"),
        *("children", "module", "module_class", "path", "used_names"),
    )

    def __init__(self, path: str, module: Any, module_class: str) -> None:
        self.path = path
        self.module: Callable[[], nn.Module | None] = (
            weakref.ref(module) if module is not None else lambda: None
        )
        self.module_class = module_class
        self.children: dict[int, Scope] = {}
        self.used_names: dict[str, Scope] = {}
        self._numbers: dict[str, int] = {}
        """By name: the last number that was given to tell modules apart."""
        self._paths: dict[int, str] = {}
        self._parts_seen: list[int] = []
        """The number of parts that each part of the module had when it was last looked at."""
        self._key = 0
        """The key of this among the children of its parent."""
        _by_path[path] = self

    def child(self, module: nn.Module, with_class: bool) -> Scope:
        """The scope of `module` called from here, made at its first call."""
        found = self.children.get(id(module))
        if found is not None and found.module() is module:
            return found
        last = _numbered(level(_UNNAMED, type(module).__name__, with_class), MOST_ALIKE - 1)
        if last in self.used_names and not self._knows(module) and not self._may_be_a_part(module):
            return self._named(last, module)  # made anew for each call: it need not be looked for
        parts = self._parts(module)
        name = "/".join(level(attribute, cls, with_class) for attribute, cls in parts)
        return self._new(name, module)

    def optimizer(self, optimizer: Any, with_class: bool) -> Scope:
        """The scope of an optimizer's step."""
        found = self.children.get(id(optimizer))
        if found is not None and found.module() is optimizer:
            return found
        return self._new(optimizer_level(type(optimizer).__name__, with_class), optimizer)

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
            return [(_UNNAMED, cls)]
        if parent is module:
            return [("self", cls)]
        if not self._knows(module):  # there may be thousands, so all are found at once
            self._paths = {id(part): path for path, part in parent.named_modules()}
            self._parts_seen = _sizes_of_parts(parent)
        path = self._paths.get(id(module))
        return [(_UNNAMED, cls)] if path is None else _levels(parent, path)

    def _knows(self, module: nn.Module) -> bool:
        """Tell whether it is known where in its caller a module is."""
        path = self._paths.get(id(module))
        return path is not None and _at(self.module(), path) is module

    def _may_be_a_part(self, module: nn.Module) -> bool:
        """Tell whether a module may have become a part of its caller lately."""
        parent = self.module()
        if not isinstance(parent, nn.Module):
            return False
        is_direct = any(part is module for part in parent._modules.values())
        return is_direct or self._parts_seen != _sizes_of_parts(parent)

    def _new(self, name: str, module: Any) -> Scope:
        """The scope of a module that is new here: under `name`, with a number if that is taken.

        Modules that are made anew for each call share the last of so many numbers.
        """
        number = self._numbers.get(name, 0)
        while _numbered(name, number) in self.used_names and number < MOST_ALIKE - 1:
            number += 1
        self._numbers[name] = number
        return self._named(_numbered(name, number), module)

    def _named(self, candidate: str, module: Any) -> Scope:
        scope = self.used_names.get(candidate)
        if scope is None:
            scope = Scope(f"{self.path}/{candidate}", module, type(module).__name__)
            self.used_names[candidate] = scope
        else:
            if self.children.get(scope._key) is scope:
                del self.children[scope._key]
            scope.module = weakref.ref(module)
        scope._key = id(module)
        self.children[scope._key] = scope
        return scope


def _numbered(name: str, number: int) -> str:
    if not number:
        return name
    attribute, dash, rest = name.partition("-")
    return f"{attribute}{number}{dash}{rest}"


def _sizes_of_parts(module: nn.Module) -> list[int]:
    return [0 if part is None else len(part._modules) for part in module._modules.values()]


def _at(parent: nn.Module | None, path: str) -> nn.Module | None:
    current = parent
    for attribute in path.split("."):
        current = None if current is None else current._modules.get(attribute)
    return current


def _levels(parent: nn.Module, path: str) -> list[tuple[str, str]]:
    levels: list[tuple[str, str]] = []
    current: Any = parent
    for attribute in path.split("."):
        current = current._modules[attribute]
        levels.append((attribute, type(current).__name__))
    return levels
