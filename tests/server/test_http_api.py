"""The HTTP API over a real run and its dump: answers are true, and as the description says."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from helpers.described import forbid_more
from helpers.program import python
from opscope.analysis.opened import open_for_checks
from opscope.server import control_routes, recording_routes, routes, value_routes, watch_routes
from opscope.server.library import Library
from opscope.views import answers, heat_map, hit_list, strip
from opscope.views.rank_view import RankView
from server.conftest import Asking, Recorded

RANK = "/runs/{}/ranks/0"


def models() -> dict[str, Any]:
    return {
        route.path: route.response_model
        for route in routes.router.routes
        if isinstance(route, APIRoute) and route.response_model is not None
    }


@pytest.mark.parametrize("which", ["run", "dump"])
def test_every_answer_is_as_described(ask: Asking, recorded: Recorded, which: str) -> None:
    number = getattr(recorded, which)
    nodes = ask.get(f"{RANK.format(number)}/nodes", count=1000)["nodes"]
    node = next(n["id"] for n in nodes if n["op_type"] == "log")
    file = str(recorded.script)
    checked = 0
    for path, model in models().items():
        place = path.format(run=number, rank=0, node=node)
        query: dict[str, Any] = {"file": file} if "/source" in path else {}
        if path.endswith("/path"):
            query = {"start": nodes[0]["id"], "end": node}
        forbid_more(model, set())
        TypeAdapter(model).validate_python(ask.get(place, **query))
        checked += 1
    assert checked >= 15


def test_the_description_names_every_route(ask: Asking) -> None:
    described = set(ask.get("/openapi.json")["paths"])
    parts = (routes, value_routes, control_routes, watch_routes, recording_routes)
    every = [route for part in parts for route in part.router.routes]
    ours = {route.path for route in every if isinstance(route, APIRoute)}
    assert described == {f"/api/v1{path}" for path in ours}


def test_the_strip_says_what_the_script_says(ask: Asking, recorded: Recorded) -> None:
    strip = ask.get(f"{RANK.format(recorded.run)}/strip")
    assert strip["steps"] == list(range(10))
    for step, loss, norm in recorded.facts[:9]:
        assert strip["loss"][step] == pytest.approx(loss)
        assert strip["gradient_norm"][step] == pytest.approx(norm, rel=1e-5)
    assert strip["loss"][9] == "Infinity"
    assert strip["gradient_norm"][9] == "NaN"
    assert strip["lanes"][0]["steps"] == [9]
    assert strip["recorded"] == list(range(10))


def test_few_points_stand_for_all_steps(ask: Asking, recorded: Recorded) -> None:
    losses = [fact[1] for fact in recorded.facts]
    strip = ask.get(f"{RANK.format(recorded.run)}/strip", points=3)
    assert strip["steps"] == [3, 7, 9]
    assert strip["loss_low"][:2] == pytest.approx([min(losses[0:4]), min(losses[4:8])])
    assert strip["loss_high"][:2] == pytest.approx([max(losses[0:4]), max(losses[4:8])])
    assert strip["loss"][2] == "Infinity"


def test_the_verdict_names_the_line(ask: Asking, recorded: Recorded) -> None:
    verdict = ask.get(f"{RANK.format(recorded.run)}/verdict")
    assert "began in log" in verdict["sentence"] and "train.py:27" in verdict["sentence"]
    assert verdict["step"] == 9
    assert any("log of 0" in line for line in verdict["text"])
    assert verdict["groups"][0]["node"] == verdict["story"]["node"]


def test_hits_of_a_kind_stand_together_with_their_history(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    hits = ask.get(f"{base}/hits", count=1000)
    groups = ask.get(f"{base}/hits/groups", count=1000)
    assert groups["hits"] == hits["total"]
    assert sum(group["count"] for group in groups["groups"]) == hits["total"]
    first = groups["groups"][0]
    assert (first["node"], first["steps"], first["first_step"]) == (hits["hits"][0]["node"], [9], 9)
    for name, numbers in first["actual"].items():
        assert numbers == [hits["hits"][0]["actual"][name]]
    of_one = ask.get(f"{base}/hits/groups", node=first["node"])
    assert {group["node"] for group in of_one["groups"]} == {first["node"]}
    assert ask.get(f"{base}/hits/groups", step=3)["total"] == 0
    assert ask.get(f"{base}/hits/groups", graph=1)["total"] == 0


def test_of_very_many_hits_the_history_has_some_steps(recorded: Recorded, tmp_path: Path) -> None:
    shutil.copytree(recorded.folder / "run", tmp_path / "run")
    hits = tmp_path / "run" / "rank_0" / "hits.jsonl"
    hit = json.loads(hits.read_text().splitlines()[0])
    more = [hit | {"step": step, "actual": {"max_gt": step * 2.0}} for step in range(10, 500)]
    hits.write_text("".join(f"{json.dumps(line)}\n" for line in more))
    view = RankView(open_for_checks(tmp_path / "run"), 0)
    (group,) = hit_list.hit_groups(view, hit_list.Wanted())["groups"]
    assert (group["count"], group["first_step"], group["last_step"]) == (490, 10, 499)
    steps = list(group["steps"])
    assert len(steps) == 120 and (steps[0], steps[-1]) == (10, 499) and steps == sorted(steps)
    assert list(group["actual"]["max_gt"]) == [step * 2.0 for step in steps]


def test_the_graph_says_what_the_fault_reached(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    origin = ask.get(f"{base}/verdict")["story"]["node"]
    boxes = ask.get(f"{base}/graph", scope="Default", step=9)["boxes"]
    by_node = {box["node"]: box for box in boxes if box["node"] is not None}
    assert [node for node, box in by_node.items() if box["is_origin"]] == [origin]
    label = {box["label"]: box for box in boxes}
    assert label["log-op0"]["reached"] == label["mean-op0"]["reached"] == 1
    assert label["select-op0"]["reached"] == 0, "what it was computed from is sound"
    assert label["network-Sequential"]["reached"] == 0
    everything = {box["label"]: box for box in ask.get(f"{base}/graph", step=9)["boxes"]}
    assert everything["Gradients"]["reached"] > 3
    early = ask.get(f"{base}/graph", scope="Default", step=3)["boxes"]
    assert {box["id"] for box in early if box["reached"]} == {
        box["id"] for box in boxes if box["reached"]
    }, "it is about the step of the verdict, whichever is looked at"


def test_boxes_have_a_class_and_statistics(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    for box in ask.get(f"{base}/graph", scope="Default/network-Sequential/1-ReLU", step=3)["boxes"]:
        if box["kind"] != "node":
            continue
        facts = ask.get(f"{base}/nodes/{box['node']}", step=3)["outputs"][0]["numbers"]
        assert box["node_class"] == "activation"
        assert box["mean_abs"] == pytest.approx(facts["mean_abs"])
        assert box["zero_share"] == pytest.approx(facts["zero"] / facts["count"])
        assert 0 < box["zero_share"] < 1


def test_tree_and_lists_agree(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    found: list[int] = []
    waiting = [""]
    while waiting:
        branch = ask.get(f"{base}/tree", scope=waiting.pop())
        found += [node["id"] for node in branch["nodes"]]
        waiting += [scope["name"] for scope in branch["scopes"]]
        for scope in branch["scopes"]:
            below = ask.get(f"{base}/nodes", scope=scope["name"], count=1)
            assert scope["nodes"] == below["total"]
    everything = ask.get(f"{base}/nodes", count=1000)
    assert sorted(found) == sorted(node["id"] for node in everything["nodes"])
    head = ask.get(f"{base}/nodes", text="HEAD")
    assert head["total"] and all("head" in node["name"].lower() for node in head["nodes"])
    line = ask.get(f"{base}/nodes", text="train.py:27", phase="forward")
    assert {node["op_type"] for node in line["nodes"]} >= {"select", "log", "mean", "neg"}
    pages = [ask.get(f"{base}/nodes", first=first, count=5)["nodes"] for first in (0, 5)]
    assert pages[0] + pages[1] == everything["nodes"][:10]


def test_details_have_inputs_outputs_and_code(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    log = ask.get(f"{base}/nodes", text="log-op0", phase="forward")["nodes"][0]
    details = ask.get(f"{base}/nodes/{log['id']}", step=9)
    assert details["stack"][0]["code"].startswith("loss = -torch.log(p[:, 0])")
    assert (
        details["stack"][0]["around"][27 - details["stack"][0]["first"]].strip().startswith("loss")
    )
    (given,), (made,) = details["inputs"], details["outputs"]
    assert given["numbers"]["min"] == 0 and made["numbers"]["min"] == "-Infinity"
    assert made["numbers"]["neginf"] == given["numbers"]["zero"] > 0
    assert given["source_node"] is not None and given["shape"] == [16]
    assert [hit["condition"] for hit in details["hits"]] == ["OO"]
    assert details["consumers"] and details["backward"]
    before = ask.get(f"{base}/nodes/{log['id']}", step=3)
    assert before["step"] == 3 and before["outputs"][0]["numbers"]["neginf"] == 0
    mean = ask.get(f"{base}/nodes", text="neg-op0", phase="forward")["nodes"][0]
    series = ask.get(f"{base}/nodes/{mean['id']}/series", stats="max")
    losses = [fact[1] for fact in recorded.facts]
    assert series["numbers"]["max"][:9] == pytest.approx(losses[:9])


def test_source_lines_have_their_operators(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    (file,) = ask.get(f"{base}/files")["files"]
    assert file["name"] == "train.py" and file["worst"] == 27
    source = ask.get(f"{base}/source", file=file["file"], step=9)
    assert "\n".join(source["text"]) == recorded.script.read_text()
    marks = {mark["line"]: mark for mark in source["marks"]}
    assert marks[27]["hits"] and "log" in marks[27]["ops"]
    assert marks[27]["forward"] and marks[27]["backward"] and marks[27]["inf"]
    assert ask.get(f"{base}/source", file="/etc/passwd")["text"] == []


def test_heat_map_has_the_numbers_of_scopes(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    for stat in ("max", "mean_abs", "l2", "zero_share", "nan", "inf"):
        found = ask.get(f"{base}/heatmap", stat=stat, depth=9)
        assert found["steps"] == list(range(10))
        row = found["scopes"].index("Default/network-Sequential/1-ReLU")
        relu = ask.get(f"{base}/nodes", text="1-ReLU/relu-op0", phase="forward")["nodes"][0]
        numbers = ask.get(f"{base}/nodes/{relu['id']}", step=4)["outputs"][0]["numbers"]
        expected = {
            "max": numbers["max"],
            "mean_abs": numbers["mean_abs"],
            "l2": numbers["l2"],
            "zero_share": numbers["zero"] / numbers["count"],
            "nan": 0,
            "inf": 0,
        }[stat]
        assert found["values"][row][4] == pytest.approx(expected)
    root = found["scopes"].index("Default")
    assert found["bad"][root][9] == 1 and not any(found["bad"][root][:9])


def test_a_heat_map_that_is_asked_for_again_is_the_same(recorded: Recorded) -> None:
    view = RankView(open_for_checks(recorded.folder / "run"), 0)
    for stat in ("max", "zero_share"):
        first = heat_map.heat_map(view, stat, depth=9)
        assert heat_map.heat_map(view, stat, depth=9) == first
        some = heat_map.heat_map(view, stat, scope="Default/network-Sequential", depth=1, last=5)
        row = list(first["scopes"]).index("Default/network-Sequential/1-ReLU")
        own = list(some["scopes"]).index("Default/network-Sequential/1-ReLU")
        assert list(some["values"][own]) == list(first["values"][row])[:6]
        view.forget()
        assert heat_map.heat_map(view, stat, depth=9) == first


def test_a_path_goes_through_other_scopes(ask: Asking, recorded: Recorded) -> None:
    base = f"/runs/{recorded.run}/ranks/0"

    def node(text: str) -> int:
        return int(ask.get(f"{base}/nodes", text=text)["nodes"][0]["id"])

    first, last = node("0-Linear/addmm-op0"), node("Default/log-op0")
    root = "Default/network-Sequential"
    found = ask.get(f"{base}/path", start=first, end=last, scope="Default", step=3)
    names = [each["name"].rpartition("/")[2] for each in found["nodes"]]
    assert names == ["addmm-op0", "relu-op0", "addmm-op0", "_softmax-op0", "select-op0", "log-op0"]
    assert found["total"] == 6 and found["nodes"][0]["max"] is not None
    # All of the network is one box, seen from around it, and each layer another from within.
    select = f"n{node('Default/select-op0')}"
    assert found["boxes"] == [f"s:{root}", select, f"n{last}"]
    assert found["edges"][0] == {"start": f"s:{root}", "end": select}
    inside = ask.get(f"{base}/path", start=first, end=last, scope=root)["boxes"]
    assert inside[:3] == [f"s:{root}/{name}" for name in ("0-Linear", "1-ReLU", "2-Head")]
    # Whichever way it flows, and on to the gradients; where the fault went, along it.
    assert (
        ask.get(f"{base}/path", start=last, end=first)["nodes"]
        == (ask.get(f"{base}/path", start=first, end=last)["nodes"])
    )
    grown = ask.get(f"{base}/path", start=last, end=node("1-ReLU/threshold_backward-op0"), step=9)
    assert grown["nodes"][0]["id"] == last and all(
        each["nan"] or each["inf"] for each in grown["nodes"]
    )
    apart = ask.get(f"{base}/path", start=node("randn-op0"), end=node("randn-op0"))
    assert apart["total"] == 1 and apart["edges"] == []
    assert "there is no node" in ask.get(f"{base}/path", 404, start=1, end=10**6)["error"]
    of_dump = ask.get(f"/runs/{recorded.dump}/ranks/0/path", start=0, end=1)
    assert of_dump["nodes"] == [] and "dump" in of_dump["why"]


def test_graph_of_a_scope_links_its_boxes(ask: Asking, recorded: Recorded) -> None:
    base = RANK.format(recorded.run)
    graph = ask.get(f"{base}/graph", scope="Default/network-Sequential")
    labels = {box["id"]: box["label"] for box in graph["boxes"]}
    edges = {(labels[edge["start"]], labels[edge["end"]]) for edge in graph["edges"]}
    assert {("0-Linear", "1-ReLU"), ("1-ReLU", "2-Head")} <= edges
    inner = ask.get(f"{base}/graph", scope="Default/network-Sequential/2-Head/out-Linear")
    kinds = {box["label"]: box["kind"] for box in inner["boxes"]}
    assert kinds["weight"] == kinds["bias"] == "outside"
    both = ask.get(f"{base}/graph", scope="Default/network-Sequential", backward=True)
    assert {box["phase"] for box in both["boxes"]} >= {"forward", "backward"}


@pytest.mark.parametrize(
    "path, status",
    [
        ("/runs/nothing", 404),
        ("/runs/{run}/ranks/7/strip", 404),
        ("/runs/{run}/ranks/0/nodes/99999", 404),
        ("/runs/{run}/ranks/0/nodes/-1", 422),
        ("/runs/{run}/ranks/0/nodes?count=0", 422),
        ("/runs/{run}/ranks/0/heatmap?stat=colour", 400),
        ("/runs/{run}/ranks/0/heatmap?scope=nowhere", 404),
        ("/runs/{run}/ranks/0/nodes/1/series?stats=colour", 400),
        ("/runs/{run}/ranks/0/nodes/1/series?io=up", 422),
        ("/runs/..%2F..%2Fetc/ranks/0/strip", 404),
        ("/nowhere", 404),
    ],
)
def test_a_wrong_question_gets_one_line(
    ask: Asking, recorded: Recorded, path: str, status: int
) -> None:
    assert ask.get(path.format(run=recorded.run), status)["error"]


def test_events_tell_of_the_state(ask: Asking, recorded: Recorded) -> None:
    with ask.client.stream("GET", f"/runs/{recorded.run}/events", timeout=10) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("retry: "), "a page comes back soon"
        line = next(line for line in lines if line.startswith("data:"))
    assert "stopped: Inf in step 9" in line and '"hits": ' in line


def test_numbers_that_are_no_json_are_strings() -> None:
    adapter = TypeAdapter(answers.Number)
    assert adapter.validate_python("NaN") == "NaN" and adapter.validate_python(1.5) == 1.5
    assert math.isnan(float("NaN"))


def test_lines_tell_forward_from_backward_values_that_are_not_finite(
    ask: Asking, recorded: Recorded
) -> None:
    base = f"/runs/{recorded.run}/ranks/0"
    source = ask.get(f"{base}/source", file=str(recorded.script), step=9)
    marks = {mark["line"]: mark for mark in source["marks"]}
    loss, layers = marks[27], marks[17]
    assert int(loss["inf"]) > int(loss["backward_bad"]) > 0
    assert int(layers["nan"]) + int(layers["inf"]) == int(layers["backward_bad"])


def test_edges_carry_dtype_and_shape(ask: Asking, recorded: Recorded) -> None:
    base = f"/runs/{recorded.run}/ranks/0"
    graph = ask.get(f"{base}/graph", scope="Default/network-Sequential/2-Head", step=3)
    assert "float32[16, 4]" in {edge["label"] for edge in graph["edges"]}


def test_setup_comes_last_in_lists_and_is_not_drawn(ask: Asking, recorded: Recorded) -> None:
    base = f"/runs/{recorded.run}/ranks/0"
    phases = [node["phase"] for node in ask.get(f"{base}/nodes", count=1000)["nodes"]]
    assert phases[0] != "setup" and phases[-1] == "setup"
    boxes = ask.get(f"{base}/graph", scope="Default")["boxes"]
    assert "setup" not in {box["phase"] for box in boxes}


def test_names_of_scopes_may_be_long(ask: Asking, recorded: Recorded) -> None:
    base = f"/runs/{recorded.run}/ranks/0"
    assert ask.get(f"{base}/tree", scope="x" * 12_000)["scopes"] == []


def test_the_types_of_the_page_are_current() -> None:
    script = Path(__file__).parents[2] / "ui" / "scripts" / "api_types.py"
    done = python(script, "--check", cwd=script.parent)
    assert done.returncode == 0, "run `npm run types` in ui/"


def test_lines_over_steps(ask: Asking, recorded: Recorded) -> None:
    base = f"/runs/{recorded.run}/ranks/0"
    found = ask.get(f"{base}/source/trends", file=str(recorded.script))
    assert found["steps"] == list(range(10))
    place = found["lines"].index(27)
    values, bad = found["values"][place], found["bad"][place]
    assert bad == [0] * 9 + [1]
    source = ask.get(f"{base}/source", file=str(recorded.script), step=3)
    mark = next(mark for mark in source["marks"] if mark["line"] == 27)
    sizes = [abs(mark[name]) for name in ("min", "max", "backward_max")]
    assert values[3] == max(sizes)
    assert ask.get(f"{base}/source/trends", file="/etc/passwd")["lines"] == []


def test_gradient_norms_come_in_parts_where_there_are_very_many(
    monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    whole = strip.strip(RankView(open_for_checks(recorded.folder / "run"), 0))
    assert whole["pending"] == 0
    monkeypatch.setattr(strip, "_MANY", 1)
    monkeypatch.setattr(strip, "_PATIENCE_S", -1.0)
    view = RankView(open_for_checks(recorded.folder / "run"), 0)
    assert strip.gradient_norms(view, -1.0) == {}
    view.norms.update(dict.fromkeys(view.recorded_steps[5:], 0.0))
    part = strip.strip(view)
    assert part["pending"] == 5 and part["gradient_norm"][0] is None
    view.norms.clear()
    monkeypatch.setattr(strip, "_PATIENCE_S", 60.0)
    assert strip.strip(view) == whole


def test_gradient_norms_that_are_known_are_not_read_again(
    monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    view = RankView(open_for_checks(recorded.folder / "run"), 0)
    whole = strip.gradient_norms(view)
    assert len(whole) > 5
    read = view.recorded.parts_of_stats
    asked: list[set[int]] = []

    def noted(nodes: set[int], steps: set[int]) -> Iterator[Any]:
        asked.append(steps)
        return read(nodes, steps)

    monkeypatch.setattr(view.recorded, "parts_of_stats", noted)
    assert str(strip.gradient_norms(view)) == str(whole) and asked == []
    del view.norms[3], view.norms[4]
    assert str(strip.gradient_norms(view)) == str(whole) and asked == [{3, 4}]
    view.norms_of -= 1  # a parameter has got its first gradient
    assert str(strip.gradient_norms(view)) == str(whole) and asked[1:] == [set(view.recorded_steps)]


def test_what_a_first_view_needs_is_read_ahead(recorded: Recorded) -> None:
    library = Library([recorded.folder / "run"])
    assert library.recording(recorded.run) is not library.recording(recorded.run)
    library.read_ahead(recorded.run)
    end = time.monotonic() + 30
    while library.recording(recorded.run) is not library.recording(recorded.run):
        assert time.monotonic() < end
        time.sleep(0.01)
    library.read_ahead("no-such-run.000000")  # says nothing, since nobody has asked
