"""Every block of README and docs, page by page: it runs, and what is shown is what comes."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.markdown import PAGES, ROOT, Block, blocks
from documentation.play import LANGUAGES, Space, play
from documentation.player import SCENES, playing

TYPED_ELSEWHERE = {"docs/walk-through.md": "tests/live/test_walk_through.py"}
"""A page that a test of its own types."""
NOT_RUN = {
    "a picture": 1,
    "names of files": 2,
    "needs other machines": 2,
    "serves a page until it is interrupted": 1,
    "needs Transformers, Lightning and Accelerate": 1,
}
"""Blocks that cannot be run, counted, so that there are no more of them unnoticed."""
TYPED_HERE = [page for page in PAGES if blocks(page) and page not in TYPED_ELSEWHERE]


SLOW = ("docs/live.md", "docs/page.md", "docs/example.md")
"""Pages that start servers, or a training that waits; `make test-long` types them."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page in SLOW else ()) for page in TYPED_HERE],
)
def test_a_page(page: str, tmp_path: Path) -> None:
    with playing(tmp_path, page) as player, own_modules(tmp_path):
        space = prelude(page, tmp_path)
        for block in blocks(page):
            play(block, player, space)


@contextlib.contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Let modules be found in the reader's folder, and forget them."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "") or "").startswith(str(folder)):
                del sys.modules[name]


def prelude(page: str, folder: Path) -> Space:
    """The names that the blocks of a page take as given."""
    space: Space = {"__name__": "example"}
    if (SCENES / Path(page).stem / "prelude.py").exists():
        with contextlib.chdir(folder):
            exec(compile((folder / "prelude.py").read_text(), "prelude.py", "exec"), space)
    return space


def test_every_block_is_of_a_kind_that_is_run() -> None:
    for block in all_blocks():
        assert block.language in LANGUAGES, f"{block.place}: {block.language or 'no language'}"
        if block.language == "text":
            kinds = {kind for kind, _ in block.notes}
            assert kinds & {"not run", "printed by", "printed above", "form of a command"}, (
                block.place
            )


def test_what_is_not_run_does_not_grow() -> None:
    found: dict[str, int] = {}
    for block in all_blocks():
        if (reason := block.note("not run")) is not None:
            found[reason] = found.get(reason, 0) + 1
    assert found == NOT_RUN


def test_pages_that_are_typed_elsewhere_are() -> None:
    for page, file in TYPED_ELSEWHERE.items():
        assert Path(page).name in (ROOT / file).read_text()


def test_both_languages_of_the_readme_have_the_same_blocks() -> None:
    pairs = zip(blocks("README.md"), blocks("README.zh.md"), strict=True)
    for english, chinese in pairs:
        assert english.notes == chinese.notes, english.place
        assert without_comments(english.text) == without_comments(chinese.text), english.place


def without_comments(text: str) -> str:
    return re.sub(r" +# .*", "", text)


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]
