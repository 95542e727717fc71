"""The page about scripts: its examples run, and it names all there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from opscope import train
from opscope.settings.logs import COUNTERPARTS, SUBMODULES, SYNONYMS
from opscope.train import Callback, get_metric_fn, names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "inside.md").read_text()
LOGS = (DOCS / "logs.md").read_text()


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) >= 9
    space: dict[str, Any] = {"__name__": "example"}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for example in examples:
            exec(compile(example, "inside.md", "exec"), space)
    text = shown.getvalue()
    assert "epoch: 1 step: 1, loss is " in text
    assert "Accuracy is 0.6667\n" in text
    assert "gradient of y\n" in text
    (expected,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert expected in text
    assert (tmp_path / "checkpoints" / "net-best.ckpt").exists()


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
