"""Building the page: what is said where that cannot be, and what is committed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

UI = Path(__file__).parents[2] / "ui"


def test_without_node_it_says_what_to_do(tmp_path: Path) -> None:
    shutil.copy(UI / "build.py", tmp_path / "build.py")
    done = subprocess.run(
        [sys.executable, "-S", "-E", tmp_path / "build.py"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Node.js is missing" in done.stderr and "Everything else works" in done.stderr


def test_the_lock_file_pins_everything_and_names_no_place() -> None:
    text = (UI / "package-lock.json").read_text()
    assert "://" not in text
    packages = json.loads(text)["packages"]
    needed = [name for name, facts in packages.items() if name and not facts.get("optional")]
    assert needed and all("integrity" in packages[name] for name in needed)
    for facts in packages.values():
        for name in facts.get("optionalDependencies", {}):
            assert f"node_modules/{name}" in packages, "`npm ci` would refuse this lock file"


def test_every_text_is_in_both_languages() -> None:
    lines = (UI / "src" / "texts.ts").read_text()
    assert "satisfies Record<string, readonly [string, string]>" in lines
    assert any("\u4e00" <= letter <= "\u9fff" for letter in lines)


def test_the_page_sets_no_html_by_hand() -> None:
    for path in (UI / "src").rglob("*.ts*"):
        text = path.read_text()
        for way in ("dangerouslySetInnerHTML", "innerHTML", "insertAdjacentHTML", "eval("):
            assert way not in text, f"{path.name} uses {way}"
        made = text.startswith("// Written by scripts/")
        assert made or len(text.splitlines()) <= 500, f"{path.name} is too long"
