"""Text from files on a terminal."""

from __future__ import annotations

import json

from opscope.escapes import escaped, escaped_json
from opscope.messages import say


def test_nothing_that_a_terminal_obeys_is_left() -> None:
    assert escaped("\x1b[31m\r\n\x07\x9b2J\x7f") == r"\x1b[31m\r\n\x07\x9b2J\x7f"
    assert escaped("a\u2028b\u202ec\u2066") == r"a\u2028b\u202ec\u2066"
    assert escaped("\ud800\udcff") == r"\ud800\udcff"


def test_other_text_stays_as_it_is() -> None:
    text = "Größe 模型 🙂 a\tb"
    assert escaped(text) == text


def test_json_keeps_its_meaning_and_its_lines() -> None:
    value = {"a": "\x9b\x7f\u2028", "b": ["\udcff"]}
    text = escaped_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert text.isascii()
    assert len(text.splitlines()) == 6
    assert json.loads(text) == value


def test_what_is_said_is_one_line(capsys) -> None:  # type: ignore[no-untyped-def]
    say("a name\nopscope: FORGED\x1b[2J")
    assert capsys.readouterr().err == "opscope: a name\\nopscope: FORGED\\x1b[2J\n"
