"""The HTTP API over what the recorder of a real training left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

import opscope
from helpers.described import forbid_more
from opscope.commands.view import _found
from opscope.errors import OpscopeError
from opscope.server import recording_routes
from server.conftest import Asking, Recorded


def test_every_answer_is_as_described(ask: Asking, recorded: Recorded) -> None:
    last = ask.get(f"/recordings/{recorded.run}")["ranks"][0]["last_op"]["sequence"]
    for route in recording_routes.router.routes:
        assert isinstance(route, APIRoute) and route.response_model is not None
        path = route.path.format(recording=recorded.run, place=0, sequence=last)
        forbid_more(route.response_model, set())
        TypeAdapter(route.response_model).validate_python(ask.get(path))


def test_a_run_says_that_it_has_a_recording(ask: Asking, recorded: Recorded) -> None:
    lines = {line["id"]: line["recording"] for line in ask.get("/runs")}
    assert lines == {recorded.run: True, recorded.dump: False}
    assert ask.get(f"/runs/{recorded.run}")["recording"]
    assert not ask.get(f"/runs/{recorded.dump}")["recording"]
    assert "no recording" in ask.get(f"/recordings/{recorded.dump}", 400)["error"]
    assert "there is no recording x" in ask.get("/recordings/x", 404)["error"]


def test_it_says_what_the_script_says(ask: Asking, recorded: Recorded) -> None:
    found = ask.get(f"/recordings/{recorded.run}")
    assert found["cause"] == "hit" and found["run"] == recorded.run
    (rank,) = found["ranks"]
    assert rank["steps"]["step"] == list(range(10))
    losses = [loss for _, loss, _ in recorded.facts]
    assert rank["steps"]["loss"][:9] == pytest.approx(losses[:9])
    assert rank["batch"][0]["shape"] == [16, 8] and len(rank["batch"][0]["values"]) == 8
    assert rank["has_ring"] and "train.py" in " ".join(rank["command"])


def test_the_operators_of_the_timeline_are_nodes_of_the_run(
    ask: Asking, recorded: Recorded
) -> None:
    base = f"/recordings/{recorded.run}"
    shown = ask.get(f"{base}/timeline", columns=4000)
    boxes = shown["ranks"][0]["lanes"][0]["boxes"]
    assert shown["start"] == shown["began"] < shown["end"] == shown["last"]
    single = [s for s, n in zip(boxes["sequence"], boxes["count"], strict=True) if n == 1]
    assert len(single) > 20
    found = [ask.get(f"{base}/ranks/0/operators/{sequence}") for sequence in single[:8]]
    for each in found:
        node = ask.get(f"/runs/{recorded.run}/ranks/0/nodes/{each['node']}")
        assert node["name"] == each["name"]
    assert ask.get(f"{base}/ranks/0/operators/{1 << 40}", 404)
    assert ask.get(f"{base}/ranks/7/operators/1", 404)
    assert ask.get(f"{base}/timeline", 422, columns=0)


def test_view_opens_whatever_a_recording_is(recorded: Recorded, tmp_path: Path) -> None:
    run = recorded.folder / "run"
    rank = run / "recorder" / "rank_0" / "rdr"
    assert _found(str(run)) == (run, False)
    assert _found(str(run / "recorder")) == (run / "recorder", True)
    assert _found(str(rank)) == (rank, True)
    assert _found(str(rank.parent)) == (rank.parent, True)
    assert _found(str(rank / "ring.bin")) == (rank, True)
    assert _found(str(recorded.folder / "dump")) == (recorded.folder / "dump", False)
    with pytest.raises(OpscopeError, match="is no run"):
        _found(str(tmp_path))


def test_steps_have_what_statistics_say(ask: Asking, recorded: Recorded) -> None:
    folder = recorded.folder / "run" / "recorder" / "rank_0" / "rdr"
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    run = opscope.open(recorded.folder / "run")
    for step in (1, 5, 8):
        values = run.select_values(steps=[step])
        rows = [value.stats() for value in values if "int" not in str(value.dtype)]
        largest = max(max(abs(row.min), abs(row.max)) for row in rows if row and row.count)
        assert steps[step]["statistics"]["largest"] == largest
        assert "not_finite" not in steps[step]["statistics"]
    last = steps[9]["statistics"]
    assert last["not_finite"] > 0 and last["first"].endswith("/log-op0")
    shown = ask.get(f"/recordings/{recorded.run}")["ranks"][0]["steps"]
    assert shown["not_finite"] == [0] * 9 + [last["not_finite"]]
    assert shown["largest"][5] == steps[5]["statistics"]["largest"]
