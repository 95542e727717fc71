"""The sources of an operator's inputs, as a ring has them where the capture knows.

One line for each input: `12:0` is the first output of node 12, all else comes from outside and is
told as kind and name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opscope.events import Output, Source

_MOST = 32
"""So many inputs are told of: an optimizer may take thousands."""
_FROM_NODE = re.compile(r"([0-9]{1,10}):([0-9]{1,5})")


class InputFrom(NamedTuple):
    """The source of an input: an output of a node, or something from outside."""

    node: int | None
    slot: int = 0
    outside: str = ""


def edges_text(sources: Sequence[Source]) -> str:
    """As it goes into a ring."""
    return "\n".join(map(_line, sources[:_MOST]))


def _line(source: Source) -> str:
    if isinstance(source, Output):
        return f"{source.node.id}:{source.slot}"
    return f"{source.kind} {source.name}".replace("\n", " ").rstrip()


def edges_of(text: str) -> Iterator[InputFrom]:
    """As a ring has it."""
    for line in text.split("\n") if text else ():
        match = _FROM_NODE.fullmatch(line)
        if match:
            yield InputFrom(int(match[1]), int(match[2]))
        else:
            yield InputFrom(None, outside=line)
