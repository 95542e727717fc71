"""No file of code is longer than a person reads at once, unless it says at its top why."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples", "ui/src", "ui/scripts")
ENDINGS = (".py", ".cpp", ".h", ".ts", ".tsx", ".css")
MOST = 500
REASONS = ("it is long since", "do not edit")


def long_files(root: Path) -> list[str]:
    """List the files that are too long and give no reason."""
    paths = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    found = []
    for path in paths:
        if path.suffix in ENDINGS and path.is_file() and "page" not in path.parts:
            lines = path.read_text().splitlines()
            if len(lines) > MOST and not any(
                reason in line for line in lines[:8] for reason in REASONS
            ):
                found.append(f"{path.relative_to(root)}: {len(lines)} lines")
    return found


def test_files_are_short_or_say_why() -> None:
    assert long_files(ROOT) == []


def test_a_long_file_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    text = "x = 1\n" * (MOST + 1)
    (tmp_path / "src/short.py").write_text(text[: MOST * 6])
    (tmp_path / "src/long.py").write_text(text)
    (tmp_path / "src/told.py").write_text(f"# A table: it is long since it has many rows.\n{text}")
    assert long_files(tmp_path) == [f"src/long.py: {MOST + 1} lines"]
