"""Attributes of torch and the standard library that are replaced while capture is on."""

from __future__ import annotations

from typing import Any


class Patches:
    """Replaces attributes and puts the originals back, last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def set(self, owner: Any, name: str, replacement: Any) -> Any:
        """Replace `owner.name`; returns the original."""
        original = getattr(owner, name)
        self._undo.append((owner, name, original, replacement))
        setattr(owner, name, replacement)
        return original

    def undo(self) -> None:
        """Put everything back, except what someone else has replaced since."""
        for owner, name, original, replacement in reversed(self._undo):
            current = getattr(owner, name)
            if getattr(current, "__func__", current) is replacement:
                setattr(owner, name, original)
        self._undo.clear()
