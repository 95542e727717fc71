"""Looking into a held training: where it stands, what is kept, and what was a step before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.program import python
from live.conftest import TRAIN, Process, Server, typed, wait_for

RELU = "1-ReLU/relu-op0"


class Held:
    """A training that waits, and questions about it."""

    def __init__(
        self, server: Server, folder: Path, *options: str, steps: int = 100_000, **env: str
    ) -> None:
        self.server, self.folder = server, folder
        (folder / "train.py").write_text(TRAIN)
        address = f"127.0.0.1:{server.debugger_port}"
        words = ("run", "--wait", "--server", address, *options, "train.py", str(steps), "-1")
        self.process = Process(folder, *words, **env)
        self.run = str(wait_for(self._found, 60))

    def _found(self) -> str | None:
        assert self.process.process.poll() is None, self.process.text
        for run in self.server.live_runs():
            if self.process.process.pid in [rank["pid"] for rank in self.server.ranks(run)]:
                return run
        return None

    def go(self, verb: str, **args: Any) -> dict[str, Any]:
        """Have it go on, and where it stands when it holds again."""
        self.server.control(self.run, verb, **args)
        (rank,) = self.server.until(self.run, "paused")
        return rank

    def keep(self, *nodes: str, status: int = 200, **args: Any) -> Any:
        return self.server.post(f"/runs/{self.run}/keep", status, nodes=list(nodes), **args)

    def value(self, status: int = 200, **order: Any) -> Any:
        return self.server.post(f"/runs/{self.run}/value", status, **{"part": "slice"} | order)

    def elements(self, **order: Any) -> Any:
        return self.value(**order)["elements"]

    def ctl(self, *words: str, code: int = 0) -> str:
        address = f"127.0.0.1:{self.server.port}"
        found, text = typed(self.folder, "ctl", self.run, "--server", address, *words)
        assert found == code, text
        return text


@pytest.fixture(scope="module")
def hold(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Held]]:
    started: list[Held] = []

    def start(*options: str, steps: int = 100_000, **env: str) -> Held:
        folder = tmp_path_factory.mktemp("held")
        started.append(Held(server, folder, *options, steps=steps, **env))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()


@pytest.fixture(scope="module")
def held(hold: Callable[..., Held]) -> Held:
    started = hold()
    started.server.until(started.run, "waiting")
    return started


def test_the_node_that_it_holds_at_and_one_that_is_not_reached(held: Held) -> None:
    held.go("step", count=2)
    assert "does not hold at a node" in held.ctl("current", code=2)
    assert held.go("to", node=RELU)["node"]["where"].endswith("train.py:14")
    found = held.server.get(f"/runs/{held.run}/current")
    assert found["name"].endswith(RELU) and found["op_type"] == "relu" and found["step"] == 2
    assert [side["shape"] for side in found["inputs"]] == [[16, 16]]
    assert [side["shape"] for side in found["outputs"]] == [[16, 16]]
    shown = held.ctl("current")
    assert RELU in shown and "train.py:14" in shown and "float32 [16, 16]" in shown
    assert "train.py:14" in held.ctl("status")
    following = held.go("next")
    assert following["step"] == 2 and "2-Linear" in following["node"]["name"]
    rank = held.go("to", node=RELU)  # it has run already in this step
    assert rank["node"] is None and rank["step"] == 2
    assert rank["reason"].startswith("step 2 has ended: ") and "did not run" in rank["reason"]
    assert "did not run" in held.ctl("status")


def test_a_parameter_as_it_was_a_step_before(held: Held) -> None:
    held.go("step")
    first = held.elements(parameter="0.weight")
    held.go("step")
    second = held.elements(parameter="0.weight")
    assert second != first == held.elements(parameter="0.weight", previous=True)
    held.go("step", count=4)  # the last but one is kept though nobody held there
    fourth_before = held.elements(parameter="0.weight", previous=True)
    assert fourth_before not in (first, second, held.elements(parameter="0.weight"))
    held.go("step")
    shown = held.ctl("parameter", "0.bias", "0:2", "--previous")
    assert "shape      [2]" in shown
    for name in ("no.weight", "../../etc/passwd", "/etc/passwd"):
        assert "there is no parameter" in held.value(404, parameter=name, previous=True)["error"]
        assert "there is no node" in held.value(404, node=name)["error"]


def test_a_whole_value_is_a_file(held: Held) -> None:
    shown = held.ctl("parameter", "0.weight", "--save", "weight.npy")
    assert "weight.npy" in shown
    array = np.load(held.folder / "weight.npy", allow_pickle=False)
    assert array.shape == (16, 8) and array.dtype == np.float32
    assert array.reshape(-1).tolist() == pytest.approx(held.elements(parameter="0.weight"))
    assert "there is no parameter" in held.ctl("parameter", "x", "--save", "x.npy", code=2)
    assert not (held.folder / "x.npy").exists()


def test_kept_and_watched_nodes_of_the_step_before(held: Held) -> None:
    held.keep(RELU, f"*{RELU}")
    held.go("step", count=2)
    first = held.elements(node=RELU)
    held.go("step")
    assert held.elements(node=RELU) != first == held.elements(node=RELU, previous=True)
    held.keep()
    held.go("step", count=2)
    assert "value not kept" in held.value(400, node=RELU)["error"]
    # A watchpoint that names a node keeps it too, as somebody is there to look.
    place = f"/runs/{held.run}/watchpoints"
    held.server.post(place, action="set", watch="TL max_gt=1e30 node=*relu-op0")
    held.go("step", count=2)
    assert held.elements(node=RELU) != held.elements(node=RELU, previous=True)
    held.server.post(place, action="set", watch="TL max_gt=1e30")
    held.go("step", count=2)
    assert "value not kept" in held.value(400, node=RELU)["error"]


def test_named_parameters_are_kept_at_the_end_of_every_step(held: Held) -> None:
    held.keep("p:0.bias")
    held.server.control(held.run, "continue")
    held.server.until(held.run, "running")
    held.go("pause")
    before = held.elements(parameter="0.bias", previous=True)
    assert before != held.elements(parameter="0.bias")
    held.keep()


def test_recheck_says_what_it_could_not_check(held: Held) -> None:
    range_of_a_tensor = "TR range_start_inclusive=0.1 range_end_inclusive=0.2 range_percentage_gt=1"
    shown = held.ctl("recheck", f"{range_of_a_tensor} node=*2-Linear/addmm-op0")
    assert "not checked: value not kept" in shown
    held.keep(f"*{RELU}")
    held.go("step")
    shown = held.ctl("recheck", f"{range_of_a_tensor} node=*{RELU}")
    assert "not checked" not in shown and "1 value checked" in shown


def test_recheck_compares_weights_with_the_step_before(held: Held) -> None:
    """A step uses parameters as the one before has left them; so does what is compared."""
    grew, stayed = "WCL abs_mean_update_ratio_gt=0 parameter=0.weight", "WNC parameter=0.weight"
    held.go("step")
    before = np.array(held.elements(parameter="0.weight"))
    held.go("step")
    after = np.array(held.elements(parameter="0.weight"))
    step = held.go("step")["step"]
    place = f"/runs/{held.run}/recheck"
    found = held.server.post(place, watch=f"{grew}; {stayed}; WCS abs_mean_update_ratio_lt=1e-9")
    assert found["step"] == step and found["unchecked"] == []
    (hit,) = found["hits"]
    ratio = np.abs(after - before).mean() / (np.abs(before).mean() + 1e-9)
    assert hit["actual"]["abs_mean_update_ratio_gt"] == pytest.approx(ratio, rel=1e-5)
    held.go("step", count=4)  # the steps before are kept though nobody held there
    assert "warm it up" in held.ctl("recheck", grew)


def test_recheck_compares_no_weights_that_are_not_kept(held: Held) -> None:
    grew = "WCL abs_mean_update_ratio_gt=0 parameter=0.weight"
    held.keep(mode="none")
    held.go("step", count=4)
    assert "not checked: value not kept" in held.ctl("recheck", grew)
    # What a watchpoint compares as training uses it can be compared with another threshold.
    place = f"/runs/{held.run}/watchpoints"
    held.server.post(place, action="set", watch="WCS abs_mean_update_ratio_lt=1e-30")
    held.go("step", count=3)
    shown = held.ctl("recheck", grew)
    assert "not checked" not in shown and "warm it up" in shown
    assert "not checked: value not kept" in held.ctl("recheck", "WNC parameter=0.weight rtol=1")
    held.server.post(place, action="set", watch="TL max_gt=1e30")
    held.keep(mode="named")


def test_all_values_of_a_step(hold: Callable[..., Held], tmp_path: Path) -> None:
    """With little memory the rest goes to disk, what was dropped is said, and no bit changes."""
    held = hold("--keep", "all", "--keep-budget", "20kB", steps=20)
    held.go("step", count=2)
    for node in ("0-Linear/addmm-op0", RELU, "2-Linear/addmm-op0"):  # some of it is on disk
        (row,) = held.server.get(f"/runs/{held.run}/ranks/0/nodes", text=node, step=1)["nodes"]
        facts = held.value(node=f"Sequential/{node}", part="facts")
        assert facts["places"]["max"]["value"] == pytest.approx(row["max"])
    assert len(held.server.get(f"/runs/{held.run}/kept")) > 40
    held.keep(mode="all", budget=500)  # a value of 16 by 16 has more
    held.go("step")
    (rank,) = held.server.ranks(held.run)
    assert rank["keep"] == "all" and rank["dropped"] > 0
    assert "values dropped" in held.ctl("status")
    assert "no room" in held.value(400, node=RELU)["error"]
    assert held.keep(mode="none")["mode"] == "none"
    held.go("step", count=3)
    assert held.server.get(f"/runs/{held.run}/kept") == []
    assert "--keep none" in held.value(400, node=RELU)["error"]
    assert "--keep none" in held.keep(RELU, status=400)["error"]
    held.keep("p:*", mode="all")
    held.go("to", node=RELU)
    held.go("next")
    held.server.control(held.run, "continue")
    assert held.process.wait() == 0
    plain = python(held.folder / "train.py", "20", "-1", cwd=tmp_path)
    trained = next(line for line in plain.stdout.splitlines() if "trained" in line)
    assert trained in held.process.text
