"""What a stream cannot encode is spelled."""

from __future__ import annotations

import io

import pytest

from opscope.messages import say
from opscope.spelling import spell_on, spelled


@pytest.mark.parametrize(
    ("text", "shown"),
    [("0 … 1", "0 ~ 1"), ("a → b", "a -> b"), ("▁▅█", ".##"), ("±1", "+-1"), ("步", "\\u6b65")],
)
def test_in_ascii(text: str, shown: str) -> None:
    assert spelled(text, "ascii") == shown
    assert spelled(text, "utf-8") == text == spelled(text, None)


def test_a_stream_raises_no_more() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="latin-1", write_through=True)
    spell_on(stream)
    stream.write("± … ·")
    assert written.getvalue() == b"\xb1 ~ \xb7"


def test_messages_are_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "ascii", "backslashreplace", write_through=True)
    monkeypatch.setattr("sys.stderr", stream)
    say("log of 0 → -Inf")
    assert written.getvalue() == b"opscope: log of 0 -> -Inf\n"
