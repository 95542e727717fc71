"""The page about scripts names all there is; tests/documentation runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

from opscope import train
from opscope.settings.logs import COUNTERPARTS, SUBMODULES, SYNONYMS
from opscope.train import Callback, get_metric_fn, names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "inside.md").read_text()
LOGS = (DOCS / "logs.md").read_text()


def test_every_metric_is_named() -> None:
    assert [name for name in names() if f"`{name}`" not in PAGE] == []
    assert get_metric_fn("acc")


def test_every_callback_is_named() -> None:
    found = [name for name in train.__all__ if _is_callback(getattr(train, name))]
    assert len(found) >= 14
    assert [name for name in found if f"`{name}(" not in PAGE] == []


def _is_callback(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Callback) and value is not Callback


def test_links_within_the_page() -> None:
    heads = {line[3:].lower().replace(" ", "-") for line in PAGE.splitlines() if line[:3] == "## "}
    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= heads


def test_every_variable_and_part_of_logs_is_named() -> None:
    wanted = [*SYNONYMS, *SYNONYMS.values(), *SUBMODULES, *COUNTERPARTS]
    assert [name for name in wanted if f"`{name}`" not in LOGS] == []
