"""`mem_address_list.txt`: which memory each operator took and made, as far as a ring knows.

A ring has the storage of each operator's first input. Where the capture runs, it also has which
operator made that input: then it is an output of that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from opscope.record.reading import OperatorCall

_HEAD = "step\tsequence\taddress\tbytes\tdevice\tdtype\tfinished\tvalue\toperator"


def memory_list(operators: Sequence[OperatorCall]) -> str:
    """The text of the file: operators in their order, each with its storages."""
    made = _made(operators)
    lines = [_HEAD]
    for each in operators:
        if each.bytes:
            lines.append(_line(each, each, "input 0"))
        for slot, reader in sorted(made.get(each.sequence, {}).items()):
            lines.append(_line(each, reader, f"output {slot}"))
    return "\n".join(lines) + "\n"


def _made(operators: Sequence[OperatorCall]) -> dict[int, dict[int, OperatorCall]]:
    """By operator and slot: the first that read that output, whose first input's storage it is."""
    latest: dict[int, int] = {}
    found: dict[int, dict[int, OperatorCall]] = {}
    for each in operators:
        source = each.inputs[0] if each.inputs else None
        if source is not None and source.node in latest and each.bytes:
            outputs = found.setdefault(latest[source.node], {})
            outputs.setdefault(source.slot, each)
        if each.node is not None:
            latest[each.node] = each.sequence
    return found


def _line(owner: OperatorCall, seen: OperatorCall, value: str) -> str:
    """One storage of an operator, as another, or it itself, has seen it."""
    return (
        f"{owner.step}\t{owner.sequence}\t{seen.address:#x}\t{seen.bytes}\t{seen.device}\t"
        f"{seen.dtype}\t{'yes' if owner.finished else 'no'}\t{value}\t{owner.name}"
    )
