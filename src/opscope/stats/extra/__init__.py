"""Extra statistics: one file each, computed only for who asks for them.

The file's name is the name of the statistic, the first sentence of its docstring says what it is,
and its function `of` makes the number from the elements of a value; NaN stands for none. Nothing
else has to know of it: a run says itself which it has, and readers show them by these names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opscope.stats.elements import FiniteElements


class ExtraStatistic(NamedTuple):
    """A statistic that can be asked for."""

    name: str
    meaning: str
    of: Callable[[FiniteElements], float]


def names() -> tuple[str, ...]:
    """The names of all there are; nothing is imported for it."""
    import pkgutil  # late: who reads a run does not need it

    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(chosen: Sequence[str]) -> list[ExtraStatistic]:
    """The statistics of these names, in this order."""
    return [_loaded(name) for name in chosen]


def _loaded(name: str) -> ExtraStatistic:
    module = importlib.import_module(f"{__name__}.{name}")
    return ExtraStatistic(name, (module.__doc__ or "").partition("\n")[0], module.of)
