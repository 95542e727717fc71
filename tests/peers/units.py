"""Units: an operator with a dtype, a module, an optimizer, a program; and which are sampled."""

from __future__ import annotations

from collections.abc import Sequence

from peers import difficult, modules, operators, optimizers
from peers.cases import Case
from peers.operators import chosen

FEW_SAMPLES, MOST_SAMPLES, ALL_SAMPLES = 2, 6, 1000
_SHARES = {"float32": 7, "bfloat16": 40, "complex64": 28, "int64": 40}
"""One operator in so many is sampled, by dtype."""
_MODULES_SHARE = 6


def whole() -> list[str]:
    """All units, by name."""
    return [
        *(f"program:{name}" for name in difficult.names()),
        *(f"optimizer:{name}" for name in sorted(optimizers.by_name())),
        *(f"module:{name}" for name in sorted(modules.by_name())),
        *_operators(),
    ]


def _operators() -> list[str]:
    return [
        f"op:{name}:{dtype}"
        for name in sorted(operators.by_name())
        for dtype in operators.dtypes_of(name)
    ]


def sampled() -> list[str]:
    """A fixed part of all units: every program and optimizer, some of every family of the rest."""
    names = whole()
    found = [name for name in names if name.startswith(("program:", "optimizer:"))]
    found += _spread([n for n in names if n.startswith("module:")], _MODULES_SHARE)
    for dtype, share in _SHARES.items():
        with_dtype = [n for n in names if n.startswith("op:") and n.endswith(f":{dtype}")]
        for family in sorted({_family(name) for name in with_dtype}):
            found += _spread([n for n in with_dtype if _family(n) == family], share)
    return found


def _family(unit: str) -> str:
    """linalg, fft, special, nn …; the rest by whether the name is short."""
    name = unit.split(":")[1]
    return name.split(".")[0] if "." in name else ""


def _spread(names: Sequence[str], share: int) -> list[str]:
    return chosen(names, max(1, len(names) // share))


def chunks(units: Sequence[str], number: int) -> list[list[str]]:
    """Parts of about the same work: neighbours are alike, so every part gets some of each.

    All dtypes of an operator are in the same part.
    """
    by_subject: dict[str, list[str]] = {}
    for unit in units:
        by_subject.setdefault(subject_of(unit), []).append(unit)
    groups = list(by_subject.values())
    return [[unit for group in groups[part::number] for unit in group] for part in range(number)]


def subject_of(unit: str) -> str:
    """The unit without its dtype: `op:sin:float32` is of `op:sin`."""
    return unit.rpartition(":")[0] if unit.startswith("op:") else unit


def cases_of(unit: str, most: int = MOST_SAMPLES) -> list[Case]:
    """The cases of a unit, with at most so many sample inputs of each sort."""
    kind, _, rest = unit.partition(":")
    if kind == "program":
        return difficult.cases(rest)
    if kind == "optimizer":
        return optimizers.cases(rest, 2 * most if most <= FEW_SAMPLES else 8 * most)
    if kind == "module":
        return modules.cases(rest, most)
    name, _, dtype = rest.rpartition(":")
    return operators.cases(name, dtype, most)
