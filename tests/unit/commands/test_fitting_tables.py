"""Tables fit the terminal, and numbers are never cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opscope.commands.numbers import cell
from opscope.commands.tables import shortened, table_lines
from opscope.wording import columns_of

TEXTS = st.text(st.characters(codec="ascii", categories=["L", "Nd"]), max_size=60)
ROWS = st.lists(st.tuples(TEXTS, st.integers(-(10**9), 10**9), st.floats(), TEXTS), max_size=5)
COLUMNS = ("name", "n", "value", "what")


@given(ROWS, st.integers(20, 200))
def test_lines_fit_or_every_row_is_a_list(rows: list[Any], width: int) -> None:
    lines = table_lines(COLUMNS, rows, width)
    if len(lines) == len(rows) + 1:
        assert all(len(line) <= width for line in lines)
    else:
        assert [line.split()[0] for line in lines if line][: len(COLUMNS)] == list(COLUMNS)


@given(ROWS, st.integers(20, 200))
def test_numbers_are_whole(rows: list[Any], width: int) -> None:
    text = "\n".join(table_lines(COLUMNS, rows, width))
    for _, n, value, _ in rows:
        assert cell(n) in text and cell(value) in text


@given(ROWS)
def test_a_file_gets_every_character(rows: list[Any]) -> None:
    lines = table_lines(COLUMNS, rows, None)
    assert len(lines) == len(rows) + 1
    for line, row in zip(lines[1:], rows, strict=True):
        assert all(cell(value).strip() in line for value in row)


def test_spare_columns_go_first_those_that_say_nothing_before_others() -> None:
    rows = [["a" * 20, 1, 0, 123456], ["b" * 20, 2, 0, 123456]]
    columns = ("name", "rank", "nan", "size")
    spare = ("rank", "nan")
    heads = [table_lines(columns, rows, width, spare=spare)[0].split() for width in (60, 34, 28)]
    assert heads == [["name", "rank", "nan", "size"], ["name", "rank", "size"], ["name", "size"]]


def test_a_whole_column_is_never_cut() -> None:
    rows = [["a-name-that-one-copies", "a long text " * 4]]
    (_, line) = table_lines(("name", "what"), rows, 50, whole=("name",))
    assert line.startswith("a-name-that-one-copies  a long text") and len(line) <= 50


@given(TEXTS, st.integers(3, 80))
def test_a_shortened_text_keeps_both_ends(text: str, width: int) -> None:
    short = shortened(text, width)
    assert len(short) == min(len(text), width)
    if len(text) > width:
        assert (short[0], short[-1]) == (text[0], text[-1])


WIDE = st.text(st.sampled_from("abc/编码器é-1 层"), max_size=60)


@given(st.lists(st.tuples(WIDE, WIDE), min_size=1, max_size=5), st.integers(30, 100))
def test_characters_that_take_two_columns(rows: list[Any], width: int) -> None:
    lines = table_lines(("name", "what"), rows, width)
    assert all(columns_of(line) <= width for line in lines)


def test_columns_stand_below_each_other_whatever_their_characters() -> None:
    lines = table_lines(("name", "steps"), [["编码器", 1], ["conv", 20]], 80)
    assert {columns_of(line) for line in lines} == {len("编码器") * 2 + 2 + len("steps")}


WORDS = st.text(st.characters(codec="ascii", categories=["L"]), max_size=30)
FLOATS = st.floats(1e-9, 1e9).map(cell)


@given(st.lists(st.one_of(WORDS, FLOATS), min_size=2, max_size=9), st.integers(12, 60))
def test_a_number_in_a_sentence_stays_whole_or_goes(words: list[str], width: int) -> None:
    sentence = " ".join(words)
    for part in shortened(sentence, width).replace("…", " ").split():
        if any(character.isdigit() for character in part):
            assert part in sentence.split()


def test_a_name_in_a_sentence_is_cut_in_its_middle() -> None:
    text = "from Default/network-AlexNet/max_pool2d_with_indices-op1:0"
    short = shortened(text, 40)
    assert short.startswith("from Default/") and short.endswith("-op1:0") and len(short) == 40


def test_lists_of_rows_fit_too() -> None:
    place = "/a/long/path/" * 9 + "model.py"
    row = [place, "some words " * 20, 2**62, "x" * 90]
    lines = table_lines(("file", "what", "n", "run"), [row], 40, whole=("run",))
    assert all(len(line) <= 40 for line in lines if "x" * 90 not in line)
    text = "\n".join(lines)
    assert "model.py" in text and str(2**62) in text and "x" * 90 in text
    assert text.split().count("words") == 20
