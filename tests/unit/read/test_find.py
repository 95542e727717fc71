"""Runs and nodes by what a person types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_run import MadeRun, write_run

from opscope.errors import OpscopeError
from opscope.events import IO, Node
from opscope.read.find import find_run
from opscope.read.nodes import find_node, parse_address


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three runs, the newest not last by name."""
    for day, name in [(3, "gpt-1"), (1, "gpt-2"), (2, "vae-1")]:
        write_run(tmp_path / "runs" / name, steps=1)
        path = tmp_path / "runs" / name / "run.json"
        started = f"2020-01-0{day}T00:00:00.000+00:00"
        path.write_text(json.dumps({**json.loads(path.read_text()), "started": started}))
    return tmp_path / "runs"


def test_a_run_by_path_name_prefix_or_last(root: Path) -> None:
    assert find_run(str(root / "gpt-2"), root) == root / "gpt-2"
    assert find_run("gpt-2", root) == root / "gpt-2"
    assert find_run("va", root) == root / "vae-1"
    assert find_run("last", root) == root / "gpt-1"


def test_an_exact_name_wins_over_a_prefix(root: Path) -> None:
    write_run(root / "gpt-10", steps=1)
    assert find_run("gpt-1", root) == root / "gpt-1"


def test_a_run_that_is_not_there(root: Path, tmp_path: Path) -> None:
    with pytest.raises(OpscopeError, match=r"gpt is the start of 2 runs:\n  gpt-2\n  gpt-1"):
        find_run("gpt", root)
    with pytest.raises(OpscopeError, match=r"vea-1: no such run; in .* there are vae-1"):
        find_run("vea-1", root)
    with pytest.raises(OpscopeError, match=r"no such run; .* gpt-1, vae-1, gpt-2"):
        find_run("zzzzzz", root)
    with pytest.raises(OpscopeError, match=r"is no run: it has no run\.json"):
        find_run(str(root), root)
    with pytest.raises(OpscopeError, match="there is no run in"):
        find_run("last", tmp_path / "none")
    with pytest.raises(OpscopeError, match="there is no run in"):
        find_run("x", tmp_path / "none")


def nodes(tmp_path: Path) -> list[Node]:
    """The nodes of the hand-made run, and one of them in the evaluation graph too."""
    made = MadeRun(tmp_path)
    twin = MadeRun(tmp_path).linear
    twin.id, twin.graph = 9, 1
    return [*made.nodes, twin]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", 2),
        ("9", 9),
        ("Default/network-Net/fc-Linear/addmm-op0", 0),
        ("Gradients/Default/network-Net/fc-Linear/addmm-op0", 2),
        ("mse_loss-op0", 1),
        ("network-Net/fc-Linear/addmm-op0", 0),
        ("MSE", 1),
        ("foreach", 3),
        ("oss-op0", 1),
    ],
)
def test_a_node_by_id_name_end_or_part(tmp_path: Path, text: str, expected: int) -> None:
    assert find_node(nodes(tmp_path), text).id == expected


def test_a_node_that_is_not_there_or_not_alone(tmp_path: Path) -> None:
    with pytest.raises(OpscopeError, match="addmm matches 3 nodes") as several:
        find_node(nodes(tmp_path), "addmm")
    assert "     2  Gradients/Default/network-Net/fc-Linear/addmm-op0" in str(several.value)
    assert "(graph 1)" in str(several.value)
    with pytest.raises(OpscopeError, match="did you mean\n  Default/mse_loss-op0"):
        find_node(nodes(tmp_path), "mse_los-op0x")
    with pytest.raises(OpscopeError, match="no node matches qqq; list them with"):
        find_node(nodes(tmp_path), "qqq")


def test_addresses() -> None:
    assert parse_address("a/b-op0") == ("a/b-op0", IO.OUTPUT, None, None)
    assert parse_address("a/b-op0:2") == ("a/b-op0", IO.OUTPUT, 2, None)
    assert parse_address("a/b-op0:input:1") == ("a/b-op0", IO.INPUT, 1, None)
    assert parse_address("a/b-op0@3") == ("a/b-op0", IO.OUTPUT, None, 3)
    assert parse_address("a/b-op0:input:1@3") == ("a/b-op0", IO.INPUT, 1, 3)
    assert parse_address("a:b") == ("a:b", IO.OUTPUT, None, None)
    with pytest.raises(OpscopeError):
        parse_address("")
