"""The tensor view of a page, and what it shows."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from browser.conftest import Looking

POINT = "document.querySelector('.tensorcanvas').getContext('2d').getImageData({}, {}, 1, 1).data"


class View(Looking):
    """The tensor view of a page."""

    def at(self, run: str, node: int, value: str = "output:0", step: int = 2, **state: Any) -> None:
        words = "%3B".join(f"{name}%3D{word}" for name, word in state.items())
        self.open(f"/run/{run}?view=value&step={step}&node={node}&value={value}&tensor={words}")
        self.see(".tensorview .tabs")

    def look(self, name: str) -> None:
        self.see(f".looks [data-look={name}]").click()

    def state(self) -> dict[str, str]:
        """What the address says of how the tensor is looked at."""
        text = parse_qs(urlsplit(self.page.url).query).get("tensor", [""])[0]
        return dict(part.split("=", 1) for part in text.split(";") if part)

    def cells(self) -> list[list[str]]:
        """The texts of the table's rows."""
        rows = self.page.locator(".trow[data-row-number]")
        return [row.locator(".tcell").all_inner_texts() for row in rows.all()]

    def settled_cells(self) -> list[list[str]]:
        self.see(".tcell")
        self.wait("![...document.querySelectorAll('.tcell')].some((c) => c.textContent === '·')")
        return self.cells()

    def colour(self, x: float, y: float) -> list[int]:
        """The colour of a point of the heat map, by shares of its width and height."""
        size = self.page.evaluate(
            "(() => { const c = document.querySelector('.tensorcanvas'); "
            "return [c.width, c.height]; })()"
        )
        script = f"[...{POINT.format(int(x * size[0]), int(y * size[1]))}]"
        found: list[int] = self.page.evaluate(script)
        return found

    def count_of(self, colour: tuple[int, int, int]) -> int:
        """How many points of the heat map have a colour."""
        script = (
            "([r, g, b]) => { const c = document.querySelector('.tensorcanvas'); let n = 0; "
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
            "for (let i = 0; i < d.length; i += 4) "
            "n += d[i] === r && d[i + 1] === g && d[i + 2] === b; return n; }"
        )
        return int(self.page.evaluate(script, list(colour)))

    def drawn(self, colour: tuple[int, int, int], points: int) -> None:
        """Wait until so many points of the heat map have a colour."""
        deadline = time.monotonic() + 20
        while self.count_of(colour) < points:
            assert time.monotonic() < deadline, f"no {points} points of {colour}"
            time.sleep(0.1)

    def hover(self, x: float, y: float) -> str:
        """What the heat map says of a place."""
        box = self.see(".tensorcanvas").bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        self.see(".tensortip")
        self.wait("!document.querySelector('.tensortip').textContent.includes('…')")
        return self.see(".tensortip").inner_text()


def number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace("+Inf", "inf").replace("Inf", "inf"))
