"""What the timeline shows of rings that are written by hand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.errors import OpscopeError
from opscope.native import shared
from opscope.read.recorded import Recorded, RecordedRank, has_recording
from opscope.record.python_writer import PythonWriter
from opscope.record.reading import RECORD, RingReader
from opscope.record.ring import RING_FILE, Ring, Sizes
from opscope.views.recording_view import operator_at, recording_facts
from opscope.views.timeline import timeline

SIZES = Sizes(64, 4096, 4, 512, 512, 512)
REAL, MONO = 1_700_000_000_000_000_000, 5_000_000
PID, OTHER = 4711, 4712


def ring_of(records: list[dict[str, Any]], started: int = REAL, completed: int = 0) -> Ring:
    """A ring with these records, whose process began at a moment."""
    ring, writer = Ring.in_memory(SIZES), PythonWriter()
    writer.attach(ring)
    for number, name in enumerate(("aten::mm", "aten::relu", "c10d::allreduce_"), 1):
        assert writer.name(shared.NAME_OPERATOR, name) == number
    writer.name(shared.NAME_SCOPE, "Default/network-Net")
    writer.name(shared.NAME_GROUP, "world")
    ring["pid"], ring["started_real"], ring["started_mono"] = PID, started, MONO
    ring["head"], ring["completed"] = len(records), completed
    for place, fields in enumerate(records):
        record = np.zeros(1, RECORD)
        given_fields = {"op": 1, "scope": 1, "thread": PID, "phase": shared.FORWARD, **fields}
        for name, value in {"sequence": place + 1, **given_fields}.items():
            record[name] = value + MONO if name in ("start", "end") and value else value
        at = SIZES.records_at + place * shared.RING_RECORD_BYTES
        ring.memory[at : at + shared.RING_RECORD_BYTES] = record.tobytes()
    return ring


def recorded(*rings: Ring, missing: list[dict[str, Any]] | None = None) -> Recorded:
    """A recording with these rings as its ranks."""
    found = Recorded.__new__(Recorded)
    found.path = Path("somewhere")
    found.report = {"cause": "killed", "missing": missing or [], "absent": []}
    found.ranks = [
        RecordedRank(place, {"rank": place}, RingReader(ring.memory[:]), "")
        for place, ring in enumerate(rings)
    ]
    return found


def calls(count: int, length: int = 10, apart: int = 100, **fields: Any) -> list[dict[str, Any]]:
    return [{"start": 1 + n * apart, "end": 1 + n * apart + length, **fields} for n in range(count)]


def test_operators_are_boxes_in_the_order_of_time() -> None:
    records = [
        {"start": 1, "end": 101, "step": 0},
        {"start": 201, "end": 301, "op": 2, "phase": shared.BACKWARD, "step": 0},
        {"start": 401, "step": 1},
    ]
    found = timeline(recorded(ring_of(records)), None, None, 1000)
    (rank,) = found["ranks"]
    (lane,) = rank["lanes"]
    boxes = lane["boxes"]
    assert lane["kind"] == "main" and lane["operators"] == 3
    assert boxes["start"] == [0, 200, 400] and boxes["end"][:2] == [100, 300]
    assert boxes["end"][2] == found["last"] > 400
    assert boxes["state"] == ["finished", "finished", "flight"]
    assert [boxes["names"][n] for n in boxes["name"]] == ["mm", "relu", "mm"]
    assert boxes["phase"] == ["forward", "backward", "forward"]
    assert rank["steps"] == [{"step": 0, "at": 0}, {"step": 1, "at": 400}]
    assert rank["ended"] == 400


def test_what_is_too_short_is_put_together() -> None:
    long = {"start": 2001, "end": 4001, "op": 2}
    found = timeline(recorded(ring_of([*calls(20), long])), 0, 4000, 4)
    boxes = found["ranks"][0]["lanes"][0]["boxes"]
    assert boxes["count"] == [10, 10, 1]
    assert boxes["start"] == [0, 1000, 2000] and boxes["end"] == [910, 1910, 4000]
    assert boxes["busy"] == [100, 100, 2000] and boxes["sequence"] == [1, 11, 21]
    assert boxes["name"] == [-1, -1, 0] and boxes["names"] == ["relu"]
    close = timeline(recorded(ring_of([*calls(20), long])), 0, 1000, 1000)
    assert close["ranks"][0]["lanes"][0]["boxes"]["count"] == [1] * 11


def test_an_operator_in_flight_is_never_put_together() -> None:
    found = timeline(recorded(ring_of([*calls(20), {"start": 2001}])), 0, 1 << 40, 2)
    boxes = found["ranks"][0]["lanes"][0]["boxes"]
    assert boxes["state"].count("flight") == 1
    assert boxes["count"][boxes["state"].index("flight")] == 1


def test_threads_streams_and_groups_have_rows_of_their_own() -> None:
    cuda = {"device": 1, "device_index": 2, "stream": 7, "bytes": 64}
    world = {"flags": shared.COLLECTIVE, "group": 1, "collective": 1, "op": 3}
    records = [
        {"start": 1, "end": 5, **world},
        {"start": 11, "end": 15},
        {"start": 21, "end": 25, "thread": OTHER},
        {"start": 31, "end": 35, **cuda},
    ]
    (rank,) = timeline(recorded(ring_of(records, completed=4)), None, None, 100)["ranks"]
    assert [lane["kind"] for lane in rank["lanes"]] == ["main", "thread", "stream", "group"]
    assert rank["lanes"][1]["thread"] == OTHER
    assert rank["lanes"][2]["device"] == "cuda:2" and rank["lanes"][2]["stream"] == 7
    assert rank["lanes"][3]["group"] == "world" and rank["completed"] == 30


def test_ranks_are_on_one_clock_and_what_one_never_entered_is_told() -> None:
    world = {"flags": shared.COLLECTIVE, "group": 1, "op": 3}
    waits = ring_of([*calls(3), {"start": 1001, "collective": 1, **world}])
    absent = ring_of(calls(3), started=REAL + 500)
    missing = [
        {"group": "world", "number": 1, "name": "allreduce_", "waiting": [0], "missing": [1]}
    ]
    first, second = timeline(recorded(waits, absent, missing=missing), 0, 5000, 5000)["ranks"]
    assert first["lanes"][0]["boxes"]["start"] == [0, 100, 200]
    assert second["lanes"][0]["boxes"]["start"] == [500, 600, 700]
    assert first["never"] == []
    assert second["never"] == [{"group": "world", "number": 1, "name": "allreduce_", "at": 1000}]


def test_few_threads_are_shown_of_very_many() -> None:
    records = [{"start": 1 + n, "end": 2 + n, "thread": 100 + n} for n in range(40)]
    (rank,) = timeline(recorded(ring_of(records)), None, None, 100)["ranks"]
    assert rank["hidden"] == 24
    assert [lane["thread"] for lane in rank["lanes"]] == list(range(124, 140))


def test_an_operator_is_told_of_with_its_neighbours() -> None:
    records = [*calls(2), {"start": 301, "end": 302, "thread": OTHER}, {"start": 401, "node": 9}]
    found = operator_at(recorded(ring_of(records)), 0, 2)
    assert found["name"] == "Default/network-Net/mm-op1" and found["state"] == "finished"
    assert found["before"] == 1 and found["after"] == 4 and found["node"] is None
    assert found["seconds"] == pytest.approx(1e-8)
    last = operator_at(recorded(ring_of(records)), 0, 4)
    assert last["state"] == "flight" and last["node"] == 8 and last["after"] is None
    with pytest.raises(OpscopeError, match="has no operator 5"):
        operator_at(recorded(ring_of(records)), 0, 5)


def test_an_operator_too_old_for_the_list_has_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = RingReader(ring_of(calls(6)).memory[:])
    whole = [each.name for each in ring.operators]
    monkeypatch.setattr("opscope.record.reading._MOST_OPERATORS", 2)
    short = RingReader(ring_of(calls(6)).memory[:])
    assert len(short.operators) == 2
    assert [short.operator(n).name for n in range(1, 5)] == whole[:4]  # type: ignore[union-attr]
    assert [short.operator(n) for n in (5, 6)] == short.operators


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, SIZES.total - 8), st.integers(0, (1 << 64) - 1)), max_size=8)
)
def test_whatever_a_file_holds_it_is_shown_or_refused(changes: list[tuple[int, int]]) -> None:
    content = bytearray(ring_of([*calls(9), {"start": 2001}]).memory[:])
    for at, value in changes:
        struct.pack_into("<Q", content, at, value)
    try:
        ring = RingReader(bytes(content))
    except OpscopeError:
        return
    found = recorded(ring_of(calls(1)))
    found.ranks = [RecordedRank(0, {"rank": 0}, ring, "")]
    timeline(found, None, None, 100)
    recording_facts("id", "", found)
    for sequence in ring.records["sequence"][:3].tolist():
        operator_at(found, 0, sequence)


def test_a_report_from_elsewhere_is_shown_as_far_as_it_makes_sense() -> None:
    found = recorded(ring_of(calls(1)))
    odd: dict[str, Any] = {
        "rank": "x",
        "cause": ["?"],
        "step": None,
        "last_op": {"name": 3, "seconds": "long", "source": [1]},
        "source": 5,
        "facts": [],
        "exception": "no",
        "steps": [{"step": "one", "loss": "NaN", "batch": [3, {"shape": "no"}]}],
    }
    found.ranks = [RecordedRank(0, odd, None, "")]
    (rank,) = recording_facts("id", "", found)["ranks"]
    assert rank["cause"] == "" and rank["source"] is None and rank["exception"] is None
    assert np.isnan(rank["steps"]["loss"][0])  # type: ignore[arg-type]
    assert rank["batch"] == [{"name": "", "dtype": "", "shape": [], "digest": "", "values": []}]
    assert timeline(found, None, None, 10)["ranks"] == []
    odd["exception"] = {"type": 3, "frames": [{"user": True, "tensors": {"x": 5}}, 7]}
    odd["last_operators"] = [{}, "x"]
    (rank,) = recording_facts("id", "", found)["ranks"]
    assert rank["exception"] is not None and rank["exception"]["type"] == ""
    assert rank["exception"]["frames"][0]["tensors"][0]["min"] is None
    assert [each["state"] for each in rank["operators"]] == ["flight"]


def test_only_what_a_process_left_is_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0" / "rdr"
    folder.mkdir(parents=True)
    assert not has_recording(tmp_path)
    ring = Ring.in_file(folder / RING_FILE, SIZES)
    assert not has_recording(tmp_path)  # this process is alive
    ring["pid"] = (1 << 22) + 1
    assert has_recording(tmp_path)
    (folder / RING_FILE).unlink()
    (folder / "report.json").write_text("{}")
    assert has_recording(tmp_path)
    with pytest.raises(OpscopeError, match="no report of this version"):
        Recorded(tmp_path)
