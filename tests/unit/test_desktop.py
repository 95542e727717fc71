"""Where the person sits decides what is said about the page, and whether it is opened."""

from __future__ import annotations

import getpass

import pytest

from opscope.desktop import announce, open_browser

LINK = "http://127.0.0.1:4321/run/r?token=t"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_CONNECTION", "SSH_TTY", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_over_ssh_the_line_that_brings_the_page_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    monkeypatch.setenv("DISPLAY", ":0")
    announce(LINK)
    line = f"on your machine: ssh -L 4321:127.0.0.1:4321 {getpass.getuser()}@10.0.0.2"
    assert capsys.readouterr().err.splitlines() == [f"opscope: page: {LINK}", f"opscope: {line}"]
    assert not open_browser(LINK), "a window there would be seen by nobody"


def test_here_only_the_address_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    announce(LINK)
    assert capsys.readouterr().err == f"opscope: page: {LINK}\n"
    assert not open_browser(LINK), "there is no desktop"
