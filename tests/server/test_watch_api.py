"""Watchpoints over HTTP: of a run that is over, what they select, and what they would find."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.judge.watch_set import from_json
from server.conftest import Asking, Recorded

HEAD = "Default/network-Sequential/2-Head"


class Desk:
    """Questions about watchpoints of the recorded run."""

    def __init__(self, ask: Asking, run: str) -> None:
        self.ask = ask
        self.run = run

    def post(self, path: str, body: Any, status: int = 200, **query: Any) -> Any:
        response = self.ask.client.post(f"/runs/{self.run}{path}", json=body, params=query)
        assert response.status_code == status, response.text[:400]
        return response.json()

    def selected(self, watchpoint: dict[str, Any], **query: Any) -> Any:
        return self.post("/ranks/0/watch/selection", watchpoint, **query)

    def tick(self, watchpoint: dict[str, Any], on: bool, **query: Any) -> dict[str, Any]:
        found = self.post("/ranks/0/watch/tick", watchpoint, on=on, **query)
        return {**watchpoint, "select": found["select"], "mute": found["mute"]}

    def names(self, watchpoint: dict[str, Any]) -> set[str]:
        found = self.selected(watchpoint, text="", count=1000)["values"]
        return {value["parameter"] or value["name"] for value in found if value["on"]}


@pytest.fixture
def desk(ask: Asking, recorded: Recorded) -> Desk:
    return Desk(ask, recorded.run)


def test_the_watchpoints_of_a_run_that_is_over_are_changed_and_rechecked(desk: Desk) -> None:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = desk.ask.get(f"/runs/{desk.run}/watchpoints")
        return found

    assert "OO" in [each["condition"] for each in listed()]
    (only,) = desk.post("/watchpoints", {"action": "set", "watch": "max > 0.9 op_type=*softmax*"})
    assert only["condition"] == "max > 0.9"
    assert listed() == [only]
    again = desk.post("/recheck", {"step": 9})
    assert again["step"] == 9 and again["values"] > 0
    parts = {"condition": "TL", "params": {"max_gt": -1}, "name": "all of them"}
    (changed,) = desk.post("/watchpoints", {"action": "change", "id": 1, "parts": parts})
    assert changed["params"] == {"max_gt": -1} and changed["name"] == "all of them"
    hits = desk.post("/recheck", {"step": 3})["hits"]
    assert {hit["label"] for hit in hits} == {"all of them"}
    off = {"action": "change", "id": 1, "parts": {"enabled": False}}
    assert desk.post("/watchpoints", off)[0]["enabled"] is False
    assert desk.post("/recheck", {"step": 3})["hits"] == []
    assert desk.post("/watchpoints", {"action": "remove", "id": 1}) == []
    assert listed() == []


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ({"action": "add", "watch": "TL"}, "needs at least one of"),
        ({"action": "add", "watch": "TZ zero_percentage_ge=500"}, "a number from 0 to 100"),
        ({"action": "add", "watch": "max > ten"}, "ten is no statistic"),
        ({"action": "add", "watch": {"watchpoints": [{"condition": "XX"}]}}, "is no condition"),
        ({"action": "burn"}, "is no action"),
        ({"action": "remove", "id": 99}, "there is no watchpoint 99"),
        ({"action": "change", "id": "1"}, "must be a whole number"),
        ({"action": "change", "id": 1, "parts": []}, "parts must be an object"),
    ],
)
def test_wrong_orders_change_nothing(desk: Desk, order: dict[str, Any], problem: str) -> None:
    desk.post("/watchpoints", {"action": "set", "watch": "TO"})
    status = 404 if "there is no" in problem else 400
    assert problem in desk.post("/watchpoints", order, status)["error"]
    found = desk.ask.get(f"/runs/{desk.run}/watchpoints")
    assert [each["condition"] for each in found] == ["TO"]


def test_a_run_that_is_not_there_has_no_watchpoints(ask: Asking) -> None:
    assert "there is no run" in ask.get("/runs/nowhere.000000/watchpoints", 404)["error"]


def test_conditions_have_words_units_and_limits(ask: Asking) -> None:
    found = {each["abbr"]: each for each in ask.get("/conditions")}
    zeros, steps = found["TZ"]["parameters"]
    assert steps["name"] == "steps_ge"
    assert (zeros["words"], zeros["unit"]) == ("zeros ≥", "%")
    assert (zeros["low"], zeros["high"], zeros["default"]) == (0, 100, 100)
    assert found["TL"]["parameters"][0]["words"] == "mean |x| >"
    assert found["TL"]["parameters"][1]["low"] is None


# ---------------------------------------------------------------------- what is selected


def test_a_selection_is_counted_listed_and_shown_as_a_tree(desk: Desk) -> None:
    everything = desk.selected({"condition": "TO"})
    assert everything["about"] == "values"
    assert everything["selected"] == everything["total"] == everything["found"] > 20
    gradients = desk.selected({"condition": "TO", "select": {"class": "gradient"}})
    assert 0 < gradients["total"] < everything["total"]
    of_head = {"condition": "TO", "select": {"scope": f"{HEAD}*"}}
    found = desk.selected(of_head, text="softmax")
    assert found["selected"] < found["total"]
    assert {value["on"] for value in found["values"]} == {True}
    top = desk.selected(of_head, scope="")
    scopes = {scope["name"]: scope for scope in top["scopes"]}
    assert 0 < scopes["Default"]["selected"] < scopes["Default"]["total"]
    inner = desk.selected(of_head, scope="Default/network-Sequential")["scopes"]
    head = next(scope for scope in inner if scope["name"] == HEAD)
    assert head["selected"] == head["total"]
    assert "train" in desk.selected({"condition": "LN"})["about"]


def test_weights_are_selected_by_their_names(desk: Desk) -> None:
    watchpoint = {"condition": "WO"}
    found = desk.selected(watchpoint, text="0.")
    assert found["about"] == "parameters" and found["total"] == 4
    assert {value["parameter"] for value in found["values"]} == {"0.weight", "0.bias"}
    one = found["values"][0]
    without = desk.tick(watchpoint, False, node=one["node"])
    assert desk.names(watchpoint) - desk.names(without) == {one["parameter"]}
    assert without["mute"] == [one["parameter"]]
    assert desk.names(desk.tick(without, True, scope="")) == desk.names(watchpoint)


def test_ticks_say_exactly_what_is_selected(desk: Desk) -> None:
    """Whatever is ticked, the written selection means just that, also in a file."""
    watchpoint: dict[str, Any] = {"condition": "TO"}
    every = desk.names(watchpoint)
    in_head = {name for name in every if name.startswith(f"{HEAD}/")}
    inner = next(name for name in sorted(in_head) if f"Gradients/{name}" in every)
    twin = f"Gradients/{inner}"

    one_off = desk.tick(watchpoint, False, node=_node(desk, inner))
    assert desk.names(one_off) == every - {inner} and twin in desk.names(one_off)
    assert len(one_off["mute"]) == 1 and desk.selected(one_off)["muted"] == 1
    head_off = desk.tick(one_off, False, scope=HEAD)
    assert desk.names(head_off) == every - in_head and len(head_off["mute"]) == 1
    back = desk.tick(head_off, True, node=_node(desk, inner))
    assert desk.names(back) == every - in_head | {inner}
    none = desk.tick(back, False, scope="")
    assert desk.names(none) == set()
    only = desk.tick(none, True, scope=HEAD)
    assert desk.names(only) == in_head
    assert only["mute"] == [] and list(only["select"]) == ["regex"]
    two = desk.tick(only, True, node=_node(desk, twin))
    assert desk.names(two) == in_head | {twin}
    assert desk.names(desk.tick(two, True, scope="")) == every
    saved = from_json({"watchpoints": [two]}, "file").to_json()["watchpoints"][0]
    assert desk.names({k: v for k, v in saved.items() if k != "id"}) == in_head | {twin}


def test_what_words_select_is_unticked_and_more_is_ticked(desk: Desk) -> None:
    words = {"condition": "TO", "select": {"op_type": "*softmax*", "class": "activation"}}
    (softmax,) = desk.names(words)
    none = desk.tick(words, False, node=_node(desk, softmax))
    assert desk.names(none) == set() and none["select"] == words["select"]
    relu = "Default/network-Sequential/1-ReLU/relu-op0"
    more = desk.tick(words, True, node=_node(desk, relu))
    assert desk.names(more) == {softmax, relu}
    problem = desk.post("/ranks/0/watch/tick", {"condition": "LN"}, 400, on=True)
    assert "training as a whole" in problem["error"]


def _node(desk: Desk, name: str) -> int:
    found = desk.selected({"condition": "TO"}, text=name)["values"]
    return next(int(value["node"]) for value in found if value["name"] == name)


# ---------------------------------------------------------------------- what it would find


def test_a_preview_counts_what_would_have_been_hit(desk: Desk) -> None:
    bad = desk.post("/ranks/0/watch/preview", {"condition": "TO", "enabled": False})
    assert bad["hits"] > 3 and bad["steps_hit"] == 1 and bad["by_step"][0][0] == 9
    assert (bad["steps"], bad["first"], bad["last"]) == (10, 0, 9)
    assert bad["examples"][0]["name"] and bad["values"] > 100
    calm = desk.post("/ranks/0/watch/preview", {"condition": "TO"}, last=1)
    assert calm["steps"] == 1 and calm["hits"] == bad["hits"]
    none = {"condition": "max > 1e6", "select": {"op_type": "relu"}}
    assert desk.post("/ranks/0/watch/preview", none)["hits"] == 0
    every = {"condition": "max <= 1 and min >= 0", "select": {"op_type": "*softmax"}}
    found = desk.post("/ranks/0/watch/preview", every)
    assert found["hits"] == found["steps_hit"] == 10
    unknown = desk.post("/ranks/0/watch/preview", {"condition": "WCL"})
    assert unknown["unchecked"][0]["count"] > 0


def test_the_history_of_a_threshold(desk: Desk) -> None:
    watchpoint = {
        "condition": "TL",
        "params": {"max_gt": 5, "mean_gt": 3},
        "select": {"op_type": "relu"},
    }
    found = desk.post("/ranks/0/watch/history", watchpoint, parameter="max_gt")
    series = desk.ask.get(
        f"/runs/{desk.run}/ranks/0/nodes/"
        f"{_node(desk, 'Default/network-Sequential/1-ReLU/relu-op0')}/series",
        stats="max",
    )
    assert found["steps"] == series["steps"]
    assert found["high"] == found["low"] == series["numbers"]["max"]
    assert found["total"] == 10 and found["sample"] == sorted(found["high"])
    assert found["suggested"] > max(found["high"])
    below = {"condition": "TS", "params": {"min_lt": 0}, "select": {"op_type": "addmm"}}
    found = desk.post("/ranks/0/watch/history", below, parameter="min_lt", last=4)
    assert not found["above"] and len(found["steps"]) == 4
    assert found["suggested"] < min(found["low"])
    lasting = {"condition": "AD"}
    assert desk.post("/ranks/0/watch/history", lasting, parameter="zero_percentage_ge")["total"]
    wrong = desk.post("/ranks/0/watch/history", watchpoint, 404, parameter="max_lt")
    assert "has no threshold max_lt" in wrong["error"]
    wrong = desk.post(
        "/ranks/0/watch/history", {"condition": "WCL"}, 400, parameter="abs_mean_update_ratio_gt"
    )
    assert "nothing that a run keeps" in wrong["error"]


def test_the_history_of_a_threshold_in_an_expression(desk: Desk) -> None:
    text = "max - min > 10 and 0.5 > zero_share"
    thresholds = desk.ask.get("/expression", text=text)
    assert [(each["measured"], each["sign"], each["value"]) for each in thresholds] == [
        ("max - min", ">", 10),
        ("zero_share", "<", 0.5),
    ]
    assert [text[each["start"] : each["end"]] for each in thresholds] == ["10", "0.5"]
    watchpoint = {"condition": text, "select": {"op_type": "relu"}}
    relu = _node(desk, "Default/network-Sequential/1-ReLU/relu-op0")
    series = desk.ask.get(f"/runs/{desk.run}/ranks/0/nodes/{relu}/series", stats="min,max")
    found = desk.post("/ranks/0/watch/history", watchpoint, parameter="0")
    numbers = series["numbers"]
    wide = [high - low for low, high in zip(numbers["min"], numbers["max"], strict=True)]
    assert found["high"] == pytest.approx(wide) and found["above"] and found["total"] == 10
    assert found["suggested"] > max(wide)
    shares = desk.post("/ranks/0/watch/history", watchpoint, parameter="1")
    assert not shares["above"] and all(0 < share < 1 for share in shares["high"])
    wrong = desk.post("/ranks/0/watch/history", watchpoint, 404, parameter="2")
    assert "has no threshold 2; there are 0, 1" in wrong["error"]
    assert "at the end" in desk.ask.get("/expression", 400, text="max >")["error"]
