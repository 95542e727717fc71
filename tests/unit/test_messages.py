"""What is said reaches whoever listens, and nobody listening is no error."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from opscope.messages import mend_streams, say, say_lines


class OnlyWrites:
    """A stream as people write them."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


class Raises:
    """A stream that breaks."""

    def write(self, text: str) -> None:
        raise RuntimeError("full")

    flush = write


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Raises(), 3])
def test_nobody_listens(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    say("a line")
    say_lines(["two", "lines"])


def test_a_stream_that_only_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = OnlyWrites()
    monkeypatch.setattr(sys, "stderr", stream)
    say("a line")
    say_lines(["two", "lines"])
    assert stream.text == "opscope: a line\ntwo\nlines\n"


def test_an_interruption_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def write(self, text: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        say("a line")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_streams_that_would_break_the_exit_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = io.StringIO()
    monkeypatch.setattr(sys, f"__{name}__", first)
    for stream, expected in (
        (None, None),
        (first, first),
        (Raises(), first),
        (OnlyWrites(), first),
    ):
        monkeypatch.setattr(sys, name, stream)
        mend_streams()
        assert getattr(sys, name) is expected
    monkeypatch.setattr(sys, f"__{name}__", None)
    monkeypatch.setattr(sys, name, Raises())
    mend_streams()
    assert getattr(sys, name) is None
