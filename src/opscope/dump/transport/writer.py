"""The calls that the dump makes on those who write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from opscope.dump.format.subject import Sighting
from opscope.dump.format.table_rows import TableRows
from opscope.dump.layout import DumpFolder
from opscope.events import Source


class WritingEnd(NamedTuple):
    """The end of the writing."""

    iterations: int
    summary: str
    failure: str
    """The reason why it ended early, if it did."""


class WriterError(Exception):
    """The process that writes cannot go on; the message says why."""


class Writer(Protocol):
    """Writes values, rows and step ends, in the order in which they are given."""

    def value(
        self,
        seen: Sighting,
        tensor: Any,
        source: Source | None,
        changing: bool,
        measures: bool,
    ) -> str:
        """Write a value, with its row if `measures`; returns why it cannot be, if it cannot.

        `source` tells where the value was made, so that it may be recognised as an input;
        `changing` says that its operator has changed it in place.
        """

    def rows(self, batch: TableRows) -> None:
        """Write rows that are ready."""

    def line(self, place: DumpFolder, table: str, header: str, line: str) -> None:
        """Add a line to a table of an iteration."""

    def text(self, place: DumpFolder, name: str, text: str) -> None:
        """Write a small file of an iteration."""

    def skip(self, name: str, io: str, slot: int, reason: str) -> None:
        """Note a value that cannot be saved."""

    def order(self, graph: int, names: Sequence[str]) -> None:
        """Write the order of a graph's operators, when it is another than before."""

    def finish(
        self, iteration: int, complete: bool, graphs: Sequence[int], passes: Sequence[int] = ()
    ) -> None:
        """Finish a step."""

    def describe(self, description: str) -> None:
        """Write what is known of the framework and the device by now."""

    def fail(self, failure: str) -> None:
        """Note that the dump ends early."""

    def close(self, failure: str) -> WritingEnd:
        """Return when everything is written; `failure` is why the dump ended early, if it did."""
