"""How rows that a device has made get into their records, natively and by NumPy."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opscope.stats.cuda import ticket
from opscope.stats.cuda.ring import HostMemory
from opscope.stats.cuda.ticket import CudaTicket, Finished
from opscope.stats.record import NUMBERS, ROW_BYTES, ROW_DTYPE

WORDS = ROW_BYTES // 8
ROWS_OF_A_PAGE = 5
WORD = st.integers(-(1 << 63), (1 << 63) - 1)


class Past:
    """An event that has happened."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


def delivered(rows: list[list[int]], places: list[int]) -> tuple[np.ndarray[Any, Any], HostMemory]:
    """The records that rows were written into, and the memory that the rows were in."""
    records = np.zeros(2 * len(rows), ROW_DTYPE)
    records["node"] = 7
    memory = HostMemory(lambda count: torch.empty(count, dtype=torch.int64), ROWS_OF_A_PAGE * WORDS)
    pages = []
    for start in range(0, len(rows), ROWS_OF_A_PAGE):
        page = memory.take()
        flat = torch.tensor(rows[start : start + ROWS_OF_A_PAGE], dtype=torch.int64).reshape(-1)
        page[: len(flat)] = flat
        pages.append(page)
    addresses = array("q", [records.ctypes.data + ROW_BYTES * place for place in places])
    made = CudaTicket([Finished(Past(), pages, addresses, memory)], array("q"))
    made.deliver()
    made.deliver()
    return records, memory


@pytest.mark.parametrize("natively", [True, False])
@given(data=st.data())
def test_each_row_goes_to_its_record(natively: bool, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    elements = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    rows = [
        [kind, of, *data.draw(st.lists(WORD, min_size=WORDS - 2, max_size=WORDS - 2))]
        for kind, of in zip(kinds, elements, strict=True)
    ]
    places = data.draw(st.permutations(range(2 * count)))[:count]
    with pytest.MonkeyPatch.context() as patch:
        if not natively:
            patch.setattr(ticket, "place_rows", lambda *given: False)
        records, memory = delivered(rows, places)
    words = records.view(np.int64).reshape(-1, WORDS)
    sound = {place: row for place, row in zip(places, rows, strict=True) if row[1] > 0}
    for place, record in enumerate(records):
        row = sound.get(place)
        assert record["valid"] == (row is not None) and record["node"] == 7
        numbers = words[place, NUMBERS // 8 :].tolist()
        assert numbers == ([0] * len(numbers) if row is None else row[1 : 1 + len(numbers)])
        assert record["kind"] == (0 if row is None else row[0])
    assert len(memory._free) == -(-count // ROWS_OF_A_PAGE), "pages are given back"
