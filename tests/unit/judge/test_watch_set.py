"""Sets of watchpoints: from specifications and files, changed, saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opscope.errors import ConfigError, OpscopeError
from opscope.judge.parsing import make
from opscope.judge.recommended import recommended
from opscope.judge.watch_set import WatchSet, from_json, load


def ids(found: WatchSet) -> dict[int, str]:
    return {watchpoint.id: watchpoint.text for watchpoint in found}


def test_words() -> None:
    assert len(load("none")) == 0
    assert [w.text for w in load("recommended")] == [w.text for w in recommended()]
    both = load("TO; recommended")
    assert len(both) == len(recommended()) + 1
    assert both[1].condition.abbr == "TO"


def test_specifications() -> None:
    found = load("TL max_gt=10 scope=*/conv1-*; WO ;TR range_percentage_lt=5 range_end_inclusive=0")
    assert ids(found) == {
        1: "TL max_gt=10",
        2: "WO",
        3: "TR range_percentage_lt=5 range_end_inclusive=0",
    }
    assert found[1].select.scope == "*/conv1-*"
    named = load("TO name='my one' node=relu-op0 class=tensor mute=model.py:3")
    assert (named[1].name, named[1].mute) == ("my one", ("model.py:3",))


def test_specifications_of_text_that_looks_like_something_else() -> None:
    assert load("TO node=12")[1].select.node == "12"
    assert load("TO name=12")[1].name == "12"
    assert load(r"TO regex=conv\d+")[1].select.regex == r"conv\d+"
    assert load("WNC equal_nan=true")[1].params["equal_nan"] == 1
    assert load("TO enabled=false")[1].enabled is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TQ", "--watch: TQ: is neither a file nor a condition"),
        ("recomended", 'did you mean "recommended"?'),
        ("TL max_gt", "must be written key=value"),
        ("TL max_gt=x", "--watch: TL max_gt=x.params.max_gt"),
        ("TO node='a", "cannot be read"),
        ("missing.json", "missing.json: cannot be read: No such file or directory"),
        ("TL max_gt=1e400", "must be a finite number"),
    ],
)
def test_wrong_specifications(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(text)
    assert expected in str(error.value)


def test_a_file(tmp_path: Path) -> None:
    found = WatchSet([make("TO", 5, name="a"), make("WCL", abs_mean_update_ratio_gt=1)])
    found.mute(5, "relu-op0", "model.py:3")
    found.enable(6, False)
    path = tmp_path / "watch.json"
    found.save(path)
    again = load(str(path))
    assert [*again] == [*found]
    assert ids(load("watch.json", tmp_path)) == ids(found)
    (tmp_path / "rules").write_text(path.read_text())
    assert ids(load(str(tmp_path / "rules"))) == ids(found), "any file will do"


def test_ids_that_are_given_stay() -> None:
    data = {"watchpoints": [{"condition": "TO"}, {"condition": "WO", "id": 1}]}
    assert from_json(data, "w.json")[1].condition.abbr == "WO"
    data = {"recommended": True, "watchpoints": [{"condition": "TO", "id": 2}]}
    assert from_json(data, "w.json")[2].condition.abbr == "TO"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], "must be an object"),
        ({"watchpoint": []}, 'unknown key (did you mean "watchpoints"?)'),
        ({"version": 2}, "version = 2: must be 1"),
        ({"watchpoints": {}}, "must be a list"),
        ({"recommended": "yes"}, 'recommended = "yes": must be true or false'),
        (
            {"watchpoints": [{"condition": "TO", "id": 3}, {"condition": "WO", "id": 3}]},
            "watchpoints[1].id = 3: is the id of watchpoints[0] as well",
        ),
    ],
)
def test_wrong_files(data: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_json(data, "w.json")
    assert expected in str(error.value)


def test_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    listed = [{"condition": "T"}, {"condition": "TL"}, {"condition": "TO", "x": 1}]
    path.write_text(json.dumps({"watchpoints": listed, "y": 1}))
    with pytest.raises(ConfigError) as error:
        load(str(path))
    assert len(error.value.problems) == 4
    path.write_text("{")
    with pytest.raises(ConfigError, match="is no JSON"):
        load(str(path))


def test_changes_count_and_are_checked() -> None:
    found = WatchSet([make("TL", max_gt=1)])
    before = found.revision
    assert found.change(1, params={"max_gt": 5}, name="five").label == "five"
    assert found.change(1, select={"node": "x"}).params == {"max_gt": 5}
    assert found.revision == before + 2
    with pytest.raises(ConfigError, match="must be a finite number"):
        found.change(1, params={"max_gt": "x"})
    with pytest.raises(ConfigError, match="unknown key"):
        found.change(1, max_gt=3)
    with pytest.raises(OpscopeError, match="id"):
        found.change(1, id=9)
    assert found[1].params == {"max_gt": 5}
    assert found.enabled == [found[1]]
    found.enable(1, False)
    assert found.enabled == []
    found.remove(1)
    with pytest.raises(OpscopeError, match="there is no watchpoint 1; there are none"):
        found.remove(1)
    assert found.add(make("TO")).id == 1


def test_thorough_is_the_recommended_set_and_more() -> None:
    both = load("thorough; recommended; TO")
    names = [w.condition.abbr for w in both]
    assert set(names) > {w.condition.abbr for w in load("recommended")} | {"LP", "LO", "DX", "DB"}
    assert len(names) == len(set(names)) == len(load("thorough")) + 1


def test_everything_has_thresholds_of_its_own_and_given_ones_stay() -> None:
    found = {w.condition.abbr: w for w in load("everything; WCL; GV abs_mean_lt=1 name=mine")}
    assert len(load("everything")) == len(load("thorough")) + 4
    assert {"TZ", "WL", "WCL", "GV"} < set(found)
    given = [w for w in load("everything; WCL; GV abs_mean_lt=1") if w.condition.abbr == "WCL"]
    assert [w.params.get("steps_ge") for w in given] == [None, 10]
    assert given[0].params["abs_mean_update_ratio_gt"] == 0.1


def test_only_the_recommended_conditions_wait_for_what_arrives() -> None:
    arriving = {w.condition.abbr for w in load("recommended") if w.arriving}
    assert arriving == {"OO", "LN"}
    assert not any(w.arriving for w in load("OO; LN; TO"))
    (asked,) = load("OO arriving=true")
    assert asked.arriving and asked.to_json()["arriving"]
    with pytest.raises(ConfigError, match="is for OO and LN"):
        load("TO arriving=true")
