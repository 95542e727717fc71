"""Values over HTTP: of a dump, of what a run saved with its hit, against NumPy on the files."""

from __future__ import annotations

import io
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from safetensors.numpy import load

from opscope.read.reader import open_reader
from opscope.rundir.layout import run_key
from opscope.server import value_routes
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket
from server.conftest import TOKEN, Asking, Recorded
from server.test_http_api import forbid_more

RANK = "/runs/{}/ranks/0"
LAST = 9
"""The step that turns NaN."""


class Values:
    """Questions about one value of a dump."""

    def __init__(self, ask: Asking, run: str, node: int, side: str = "output:0") -> None:
        self.ask = ask
        self.place = f"{RANK.format(run)}/values/{node}/{side.replace(':', '/')}"

    def get(self, part: str = "", status: int = 200, **query: Any) -> Any:
        return self.ask.get(f"{self.place}{part}", status, **{"step": 2} | query)

    def bytes(self, part: str, **query: Any) -> bytes:
        response = self.ask.client.get(f"{self.place}{part}", params={"step": 2} | query)
        assert response.status_code == 200, response.text[:200]
        return response.content


def node_of(ask: Asking, run: str, text: str, phase: str = "forward") -> int:
    nodes = ask.get(f"{RANK.format(run)}/nodes", text=text, count=100)["nodes"]
    return next(node["id"] for node in nodes if node["phase"] == phase)


@pytest.fixture(scope="module")
def relu(ask: Asking, recorded: Recorded) -> Values:
    return Values(ask, recorded.dump, node_of(ask, recorded.dump, "relu-op0"))


@pytest.fixture(scope="module")
def array(relu: Values) -> np.ndarray:
    return np.load(io.BytesIO(relu.bytes("/npy")), allow_pickle=False)


def test_facts_say_what_it_is_and_where_it_lies(relu: Values, array: np.ndarray) -> None:
    facts = relu.get()
    assert facts["shape"] == list(array.shape) == [16, 16] and facts["dtype"] == "float32"
    assert facts["numbers"]["max"] == pytest.approx(float(array.max()))
    assert facts["held"] == "dump" and facts["previous"] == 1 and facts["ranks"] == [0]
    assert relu.get(step=0)["previous"] is None


def test_parts_of_a_saved_value_are_those_of_the_array(relu: Values, array: np.ndarray) -> None:
    part = relu.get("/slice", index="-1, 2:10:3")
    assert part["shape"] == [3] and part["elements"] == pytest.approx(array[-1, 2:10:3].tolist())
    tile = relu.get("/tile", rows=4, columns=2)
    cells = array.reshape(4, 4, 2, 8)
    assert tile["high"] == pytest.approx(cells.max(axis=(1, 3)).reshape(-1).tolist())
    assert tile["low"] == pytest.approx(cells.min(axis=(1, 3)).reshape(-1).tolist())
    block = relu.get("/block", top=2, left=5, height=2, width=3)
    assert block["elements"] == pytest.approx(array[2:4, 5:8].reshape(-1).tolist())
    places = relu.get("/places")
    assert places["max"]["index"] == list(np.unravel_index(array.argmax(), array.shape))
    statistics = relu.get("/statistics", index=":4")
    assert statistics["numbers"]["l2"] == pytest.approx(float(np.linalg.norm(array[:4])))
    along = relu.get("/along", axis=1)
    assert [n["max"] for n in along["numbers"]] == pytest.approx(array.max(axis=0).tolist())
    counts = relu.get("/histogram", bins=5)
    expected, edges = np.histogram(array.astype(np.float64), 5)
    assert counts["counts"] == expected.tolist()
    assert counts["edges"] == pytest.approx(edges.tolist())
    assert load(relu.bytes("/safetensors", index="0"))["value"].tolist() == array[0].tolist()


def test_a_value_against_the_step_before(relu: Values, array: np.ndarray) -> None:
    before = np.load(io.BytesIO(relu.bytes("/npy", step=1)))
    apart = array.astype(float) - before
    found = relu.get("/compared", against="step:1")
    assert found["max_abs"] == pytest.approx(np.abs(apart).max())
    assert found["index"] == list(np.unravel_index(np.abs(apart).argmax(), apart.shape))
    assert found["differing"] == np.count_nonzero(apart)
    block = relu.get("/block", against="step:1", width=16, height=16)
    assert block["elements"] == pytest.approx(apart.reshape(-1).tolist())
    assert block["before"] == pytest.approx(before.reshape(-1).tolist())
    shown = relu.get("/block", against="step:1", show="before", width=16, height=16)
    assert shown["elements"] == block["before"]
    tolerant = relu.get("/compared", against="step:1", atol=1e9)
    assert tolerant["beyond"] == 0
    assert "step 7" in relu.get("/compared", 404, against="step:7")["error"]
    assert relu.get("/compared", 422, against="step:x")["error"]


def test_a_value_against_another_rank(recorded: Recorded, tmp_path: Path) -> None:
    """The second rank is a copy of the first with one element changed."""
    folder = tmp_path / "two"
    shutil.copytree(recorded.folder / "dump" / "rank_0", folder / "rank_0")
    shutil.copytree(recorded.folder / "dump" / "rank_0", folder / "rank_1")
    (path,) = (folder / "rank_1").rglob("2/relu.*output.0*.npy")
    array = np.load(path)
    array[3, 4] += 1
    np.save(path, array)
    sock = listening_socket("127.0.0.1", 0)
    end = in_background(Library([folder]), TOKEN, sock)
    try:
        ask = Asking(f"http://127.0.0.1:{sock.getsockname()[1]}")
        run = run_key(folder)
        relu = Values(ask, run, node_of(ask, run, "relu-op0"))
        assert relu.get()["ranks"] == [0, 1]
        found = relu.get("/compared", against="rank:1")
        assert found["index"] == [3, 4] and found["differing"] == 1
        assert found["max_abs"] == pytest.approx(1)
        assert relu.get("/compared", against="rank:1", step=1)["differing"] == 0
        assert "no rank 5" in relu.get("/compared", 404, against="rank:5")["error"]
    finally:
        end()


@pytest.fixture(scope="module")
def log(ask: Asking, recorded: Recorded) -> int:
    return node_of(ask, recorded.run, "log-op0")


def test_what_a_run_saved_with_its_hit_can_be_looked_into(
    ask: Asking, recorded: Recorded, log: int
) -> None:
    output = Values(ask, recorded.run, log)
    facts = output.get(step=LAST)
    assert facts["held"] == "hit" and facts["shape"] == [16]
    assert int(facts["numbers"]["neginf"]) > 0
    elements = output.get("/slice", step=LAST)["elements"]
    assert elements.count("-Infinity") == int(facts["numbers"]["neginf"])
    assert output.get("/places", step=LAST)["neginf"]["index"] == [elements.index("-Infinity")]
    details = ask.get(f"{RANK.format(recorded.run)}/nodes/{log}", step=LAST)
    assert details["outputs"][0]["saved"]


def test_the_parameters_of_a_hit_are_those_that_were_used(ask: Asking, recorded: Recorded) -> None:
    linear = node_of(ask, recorded.run, "addmm-op0")
    details = ask.get(f"{RANK.format(recorded.run)}/nodes/{linear}", step=LAST)
    slot = next(s["slot"] for s in details["inputs"] if s["source"] == "parameter 0.bias")
    found = Values(ask, recorded.run, linear, f"input:{slot}").get(step=LAST)
    assert (found["held"], found["parameter"]) == ("hit", "0.bias")


def test_what_nobody_has_is_said_and_its_numbers_are_there(
    ask: Asking, recorded: Recorded, log: int
) -> None:
    value = Values(ask, recorded.run, log)
    facts = value.get(step=3)
    assert facts["held"] == "" and "not saved" in facts["why"] and facts["numbers"]["max"] <= 0
    for part in ("tile", "block", "histogram", "npy", "layout"):
        assert "not saved" in value.get(f"/{part}", 400, step=3)["error"]
    assert value.place and Values(ask, recorded.run, log, "output:7").get("", 404)["error"]


def test_hits_come_with_threshold_actual_value_and_advice(
    ask: Asking, recorded: Recorded, log: int
) -> None:
    hits = Values(ask, recorded.run, log).get(step=LAST)["hits"]
    assert hits and hits[0]["hit"]["step"] == LAST
    assert "clamp" in hits[0]["advice"], "the verdict on this very hit has the better advice"
    assert hits[0]["summary"]


def test_relations_lead_to_where_it_came_from_and_where_it_goes(
    ask: Asking, recorded: Recorded, log: int
) -> None:
    value = Values(ask, recorded.run, log)
    found = value.get("/relations", step=LAST, hops=3)
    by_id = {one["id"]: one for one in found["values"]}
    assert by_id[found["centre"]]["label"] == "log-op0"
    hit = {one["hit"]["condition"] for one in value.get(step=LAST)["hits"]}
    assert hit and set(by_id[found["centre"]]["conditions"]) == hit
    levels = {one["label"]: one["level"] for one in found["values"]}
    assert levels["select-op0"] == -1 and levels["mean-op0"] == 1
    feeding = {e["start"] for e in found["edges"] if e["end"] == found["centre"]}
    assert {by_id[start]["label"] for start in feeding} == {"select-op0"}
    assert {one["level"] for one in found["values"]} >= {-3, -2, -1, 0, 1, 2}
    near = value.get("/relations", step=LAST, hops=1)["values"]
    assert len(near) < len(by_id)
    value = open_reader(recorded.folder / "run").value("log-op0:0", step=LAST)
    assert by_id[found["centre"]]["numbers"]["neginf"] == np.isneginf(value.array()).sum() > 0


def test_relations_of_a_parameter_are_its_readers(ask: Asking, recorded: Recorded) -> None:
    linear = node_of(ask, recorded.run, "addmm-op0")
    found = Values(ask, recorded.run, linear, "input:0").get("/relations", step=LAST, hops=1)
    centre = next(one for one in found["values"] if one["id"] == found["centre"])
    assert centre["kind"] == "parameter" and centre["label"] == "0.bias"
    assert "addmm-op0" in {one["label"] for one in found["values"] if one["level"] == 1}


def test_a_dump_says_that_it_has_no_relations(relu: Values) -> None:
    assert "does not say where inputs come from" in relu.get("/relations", 400)["error"]


def test_every_answer_about_a_value_is_as_described(relu: Values, ask: Asking) -> None:
    checked = 0
    for route in value_routes.router.routes:
        assert isinstance(route, APIRoute)
        if route.response_model is None or route.path.endswith(("/pictures", "/relations")):
            continue
        forbid_more(route.response_model, set())
        found = relu.get(route.path.removeprefix(value_routes.VALUE), against="step:1")
        TypeAdapter(route.response_model).validate_python(found)
        checked += 1
    assert checked >= 10


@pytest.mark.parametrize("index", ["0,0,0", "x", "99", "::0", "0x1", "()", "⁵", "1e3", "0" * 900])
def test_a_wrong_slice_gets_one_line(relu: Values, index: str) -> None:
    assert relu.get("/slice", 400, index=index)["error"].count("\n") == 0


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory, recorded: Recorded) -> Iterator[Values]:
    """A dump whose one value was replaced by a sparse file of 4 * 10^9 elements."""
    folder = tmp_path_factory.mktemp("huge") / "dump"
    shutil.copytree(recorded.folder / "dump", folder)
    (path,) = folder.rglob("2/relu.*output.0*.npy")
    path.unlink()
    np.lib.format.open_memmap(path, "w+", np.float32, (63_245, 63_246))
    sock = listening_socket("127.0.0.1", 0)
    end = in_background(Library([folder]), TOKEN, sock)
    ask = Asking(f"http://127.0.0.1:{sock.getsockname()[1]}")
    run = run_key(folder)
    yield Values(ask, run, node_of(ask, run, "relu-op0"))
    end()


def test_of_a_value_larger_than_memory_parts_are_given(huge: Values) -> None:
    assert huge.get("/layout")["rows"] == 63_245
    block = huge.get("/block", top=63_000, left=63_000, height=50, width=40)
    assert block["rows"] == 50 and set(block["elements"]) == {0}
    assert "at most" in huge.get("/slice", 400)["error"]
    with huge.ask.client.stream("GET", f"{huge.place}/npy", params={"step": 2}) as response:
        assert next(response.iter_raw())[:6] == b"\x93NUMPY"


def test_questions_from_elsewhere_need_the_token(address: str, relu: Values) -> None:
    assert httpx.get(f"{address}/api/v1{relu.place}/tile").status_code == 401


def test_answers_are_not_held_back_to_be_sent_together() -> None:
    """asyncio turns that off only for sockets that say they are TCP."""
    with listening_socket("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP
