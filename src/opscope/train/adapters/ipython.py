"""Magics for IPython and notebooks, after `%load_ext opscope`."""

from __future__ import annotations

import shlex
from typing import Any

from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.read.hit_rows import HitsAtValue, grouped
from opscope.read.html import hits_table
from opscope.train.needs import need
from opscope.train.watching import Watching
from opscope.wording import counted


class CellHits(list[dict[str, Any]]):
    """Hits as plain data; a person gets a table, or a line for each kind."""

    def __repr__(self) -> str:
        lines = [f"  {_told(each)}" for each in grouped(self)]
        return "\n".join([counted(len(self), "hit"), *lines])

    def _repr_html_(self) -> str:
        return hits_table(self) if self else "<p>no hits</p>"


_magic: Any = need("IPython.core.magic", "the extension")


@_magic.magics_class
class OpscopeMagics(_magic.Magics):  # type: ignore[misc]
    """`%%opscope` watches a cell, `%opscope_hits` lists what was found in it."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._watching = Watching({})

    @_magic.cell_magic  # type: ignore[untyped-decorator]
    def opscope(self, line: str, cell: str) -> None:
        """Run a cell under opscope: `%%opscope watch=recommended on_hit=log steps=0-9`."""
        try:
            self._watching = Watching(_options(line))
            self._watching.start()
        except (OpscopeError, TypeError) as error:
            say(str(error))
            return
        try:
            self.shell.run_cell(cell)  # which shows what the cell raises
        finally:
            self._watching.stop()

    @_magic.line_magic  # type: ignore[untyped-decorator]
    def opscope_hits(self, line: str) -> CellHits:
        """The hits of the last cell under `%%opscope`."""
        return CellHits(hit.to_json() for hit in self._watching.hits)


def _told(group: HitsAtValue) -> str:
    steps, _, _, label, value, place, what = map(str, group.row())
    return f"step {steps}  {label}  {value}  {place}  {what}"


def _options(line: str) -> dict[str, Any]:
    """`name=value` pairs; a name alone switches something on."""
    options: dict[str, Any] = {}
    for word in shlex.split(line):
        name, given, value = word.partition("=")
        options[name.replace("-", "_")] = _value(value) if given else True
    return options


def _value(text: str) -> str | bool:
    return text.lower() == "true" if text.lower() in ("true", "false") else text


def load(shell: Any) -> None:
    """Give a shell the magics."""
    shell.register_magics(OpscopeMagics)
