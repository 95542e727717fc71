"""The verdict as an HTML file, from the command line; names in it do nothing."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from helpers.forked import forked_opscope as opscope
from opscope.analysis.opened import open_for_checks
from opscope.views import html_report
from server.conftest import Recorded


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> _Tags:
    tags = _Tags()
    tags.feed(text)
    return tags


def test_hits_writes_the_report(recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = opscope("hits", recorded.folder / "run", "--html", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = read(file.read_text())
    assert "NaN or Inf in step 9" in found.text and "began in log" in found.text
    assert "loss = -torch.log(p[:, 0]).mean()" in found.text
    assert {"svg", "polyline", "table", "pre"} <= found.names and "script" not in found.names
    wrong = opscope("hits", recorded.folder / "run", "--html", tmp_path, cwd=tmp_path)
    assert wrong.returncode == 1 or wrong.returncode == 2
    assert "Is a directory" in wrong.stderr


def test_a_run_without_hits_says_so(recorded: Recorded) -> None:
    found = read(html_report.html_report(open_for_checks(recorded.folder / "dump")))
    assert "began in" not in found.text and "table" not in found.names


def test_names_are_text(monkeypatch, recorded: Recorded) -> None:  # type: ignore[no-untyped-def]
    odd = "<script>alert(1)</script>\x1b[31m\"'&"
    verdict = html_report.verdict

    def hostile(view):  # type: ignore[no-untyped-def]
        found = verdict(view)
        groups = [{**group, "name": odd, "message": odd} for group in found["groups"]]
        return {**found, "sentence": odd, "text": [odd], "groups": groups}

    monkeypatch.setattr(html_report, "verdict", hostile)
    text = html_report.html_report(open_for_checks(recorded.folder / "run"))
    assert "script" not in read(text).names and "\x1b" not in text
