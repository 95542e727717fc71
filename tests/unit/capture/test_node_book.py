"""The numbers of call sites that Python and native code share."""

from __future__ import annotations

from opscope.capture.node_book import SiteMarks


def test_marks_keep_their_numbers_when_they_move() -> None:
    marks = SiteMarks()
    moved = []
    marks.on_move = lambda: moved.append(marks.numbers.buffer_info()[0])
    places = [marks.add(serial) for serial in range(5000)]
    assert moved[-1] == marks.numbers.buffer_info()[0]
    assert [marks.numbers[at] for at in places] == list(range(5000))
    assert {marks.numbers[at + 1] for at in places} == {1}
