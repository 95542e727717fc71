"""Makes the pictures of terminals in the docs: what real commands print at 80 columns.

python docs/images/terminal.py
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.text import Text

from opscope.commands import main as opscope

HERE = Path(__file__).resolve().parent
TRAINING = ("run", "--run-dir", "opscope-runs/alexnet", "--no-page", "examples/alexnet.py")
PICTURES = {
    "show": "opscope show last conv3 --last 3",
    "nodes": "opscope nodes last alexnet.py:34",
}
"""The name of a picture → the command it shows."""
_WIDTH = 80
_FONT = "ui-monospace, Menlo, Consolas, monospace"


class Terminal(io.StringIO):
    """A stream that somebody seems to look at."""

    def isatty(self) -> bool:
        return True


def pictures(folder: Path, train: Callable[[Sequence[str], Path], object]) -> dict[str, str]:
    """Train in a folder, and make every picture as SVG."""
    (folder / "examples").symlink_to(HERE.parents[1] / "examples")
    train(TRAINING, folder)
    return {name: picture(name, command, folder) for name, command in PICTURES.items()}


def picture(name: str, command: str, folder: Path) -> str:
    """A command and what it prints, as SVG; the same text gives the same picture."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO())
    console.print(Text("$ ", "bold green") + Text(command, "default"))
    console.print(Text(printed(command, folder)), soft_wrap=True)
    svg = console.export_svg(title="opscope", unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code[^;]*;", f"font-family: {_FONT};", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def printed(command: str, folder: Path) -> str:
    """What a command of opscope prints on a terminal, in this process."""
    shown = Terminal()
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, COLUMNS=str(_WIDTH)),
        contextlib.redirect_stdout(shown),
    ):
        code = opscope(shlex.split(command)[1:])
    assert code == 0, f"{command} ended with {code}"
    return shown.getvalue().rstrip()


def text_of(svg: str) -> list[str]:
    """The lines of text in a picture."""
    lines: dict[str, str] = {}
    for place, text in re.findall(r' y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        lines[place] = lines.get(place, "") + html.unescape(text).replace("\xa0", " ")
    return [line.rstrip() for line in lines.values()]


def _train(words: Sequence[str], folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "opscope", *words], cwd=folder, check=True)


def main() -> None:
    """Write the pictures beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, svg in pictures(Path(folder), _train).items():
            (HERE / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
