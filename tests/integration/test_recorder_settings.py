"""Where the recorder is switched on, where its files go, and what happens if they cannot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from helpers.forked import forked_opscope, forked_python
from helpers.recordings import TRAIN, recording, written_report
from opscope.read.recorded import Recorded
from opscope.record.reading import RECORD, RingReader
from opscope.views.recording_view import recording_facts

PLAIN = f"import opscope\n{TRAIN}"
IN_CONTEXT = f"import opscope\nopscope.set_context(env_config_path='rdr.json')\n{TRAIN}"
LIMITED = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"


@pytest.mark.parametrize(("how", "code", "cause"), [("raise", 1, "exception"), ("exit", 7, "exit")])
def test_a_plain_import_with_variables(tmp_path: Path, how: str, code: int, cause: str) -> None:
    (tmp_path / "train.py").write_text(PLAIN)
    environ = {"OPSCOPE_RECORD_ENABLE": "1", "OPSCOPE_RECORD_PATH": str(tmp_path), "RANK_ID": "5"}
    done = forked_python("train.py", how, cwd=tmp_path, **environ)
    assert done.returncode == code, done.stderr
    report = written_report(recording(tmp_path, 5))
    assert report["cause"] == cause and report["rank"] == 5
    assert not (tmp_path / "opscope-runs").exists()


def test_a_plain_import_that_ends_well_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PLAIN)
    done = forked_python("train.py", "well", cwd=tmp_path, MS_RDR_ENABLE="1")
    assert done.returncode == 0 and done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_file_that_the_script_names(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(IN_CONTEXT)
    rdr = {"enable": True, "mode": 1, "path": str(tmp_path / "x")}
    (tmp_path / "rdr.json").write_text(json.dumps({"rdr": rdr}))
    done = forked_python("train.py", "raise", cwd=tmp_path, MS_RDR_ENABLE="0")
    assert done.returncode == 1
    assert written_report(recording(tmp_path / "x"))["cause"] == "exception"


def test_without_a_path_it_is_in_the_run_directory(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = forked_opscope("run", "--run-dir", "run", "train.py", "raise", cwd=tmp_path)
    assert done.returncode == 1
    report = written_report(recording(tmp_path / "run" / "recorder"))
    assert report["last_op"]["name"] == "Default/network-Net/ward_last_op-op0"
    lines = (tmp_path / "run" / "rank_0" / "nodes.jsonl").read_text().splitlines()
    nodes = {json.loads(line)["name"] for line in lines}
    ran = [op for op in report["last_operators"] if op["step"] in (1, 2)]
    assert ran and {op["name"] for op in ran} <= nodes
    assert_edges(recording(tmp_path / "run" / "recorder"))
    assert_lines_of_nodes(recording(tmp_path / "run" / "recorder"))
    assert_exception_is_shown(tmp_path / "run")
    shown = forked_opscope("report", "run", cwd=tmp_path)
    assert shown.stdout.startswith("how it ended: exception: ValueError: bad thing\n")


def assert_edges(folder: Path) -> None:
    """Where statistics run, graphs and the list of memory have what they know of inputs."""
    nodes = {node.name: node for node in onnx.load(folder / "graph_0.pb").graph.node}
    linear, relu = (
        nodes[f"Default/network-Net/{name}-op0"] for name in ("fc1-Linear/addmm", "relu")
    )
    assert list(relu.input) == list(linear.output) and "fc1.bias" in linear.input
    text = (folder / "graph_0.ir").read_text()
    (line,) = [each for each in text.splitlines() if "ward_last_op(" in each]
    producer = line.partition("ward_last_op(%")[2].partition(")")[0]
    assert f"  %{producer}(output) = relu(" in text
    rows = [row.split("\t") for row in (folder / "mem_address_list.txt").read_text().splitlines()]
    made = {(row[0], row[8]): row[2] for row in rows if row[7] == "output 0"}
    taken = {(row[0], row[8]): row[2] for row in rows if row[7] == "input 0"}
    for step in ("1", "2"):
        relu_made = made[step, "Default/network-Net/relu-op0"]
        assert relu_made == taken[step, "Default/network-Net/ward_last_op-op0"]


def assert_exception_is_shown(run: Path) -> None:
    """The page gets the frames of the script with the tensors in them."""
    (rank,) = recording_facts("id", "id", Recorded(run))["ranks"]
    raised = rank["exception"]
    assert raised is not None and (raised["type"], raised["message"]) == ("ValueError", "bad thing")
    functions = [frame["function"] for frame in raised["frames"]]
    assert functions == ["die", "last_op", "forward", "<module>"]
    tensors = {tensor["name"]: tensor for tensor in raised["frames"][2]["tensors"]}
    assert (
        tensors["x"]["shape"] == [8, 16] and tensors["h"]["min"] == 0 and tensors["h"]["nan"] == 0
    )
    assert rank["operators"][0]["state"] == "raised" and len(rank["operators"]) == 40


def assert_lines_of_nodes(folder: Path) -> None:
    """Where native code cannot read frames, as on newer Pythons, nodes have the same lines."""
    content = bytearray((folder / "ring.bin").read_bytes())
    found = RingReader(bytes(content))
    records = np.frombuffer(content, RECORD, found.sizes.slots, found.sizes.records_at)
    records["site"] = 0
    others = [each for each in RingReader(bytes(content)).operators if each.node is not None]
    assert {each.phase for each in others} >= {"forward", "backward", "optimizer"}
    for each in others:
        same = found.operator(each.sequence)
        assert same is not None
        if each.phase != "backward":
            assert each.source[0][:2] == same.source[0][:2], each.name


def test_the_rank_may_be_known_late(tmp_path: Path) -> None:
    late = TRAIN.replace("net = Net()", "os.environ['RANK'] = '3'\nnet = Net()")
    (tmp_path / "train.py").write_text(late)
    environ = {"MS_RDR_PATH": str(tmp_path), "FOLDER": str(tmp_path)}
    done = forked_opscope("run", "--no-stats", "train.py", "SIGTERM", cwd=tmp_path, **environ)
    assert done.returncode == -15
    assert written_report(recording(tmp_path, 3))["rank"] == 3
    assert not (tmp_path / "rank_0").exists()


def test_a_stop_by_a_hit_counts(tmp_path: Path) -> None:
    bad = TRAIN.replace("    opt.zero_grad()", "    loss = loss / (step != 3)\n    opt.zero_grad()")
    (tmp_path / "train.py").write_text(bad)
    environ = {"MS_RDR_PATH": str(tmp_path)}
    done = forked_opscope("run", "--run-dir", "run", "train.py", "", cwd=tmp_path, **environ)
    assert done.returncode == 3, done.stderr
    report = written_report(recording(tmp_path))
    assert report["cause"] == "hit" and report["cause_text"] == "stopped by a hit: Inf"


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    words = ("run", "--run-dir", "run", "--no-record", "train.py", "raise")
    assert forked_opscope(*words, cwd=tmp_path).returncode == 1
    assert (tmp_path / "run" / "run.json").exists()
    assert not (tmp_path / "run" / "recorder").exists()


@pytest.mark.parametrize("mode", ["1", "2"])
def test_a_path_that_cannot_be_written_to(tmp_path: Path, mode: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"MS_RDR_PATH": "/proc/none", "MS_RDR_MODE": mode}
    done = forked_opscope("run", "--no-stats", "train.py", "well", cwd=tmp_path, **environ)
    assert done.returncode == 0 and "done" in done.stdout
    lines = done.stderr.splitlines()
    assert "cannot write to /proc/none/rank_0/rdr" in lines[0] and "in memory" in lines[0]
    assert len(lines) == {"1": 1, "2": 2}[mode]


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LIMITED + PLAIN)
    environ = {"MS_RDR_ENABLE": "1", "MS_RDR_PATH": str(tmp_path)}
    done = forked_python("train.py", "raise", cwd=tmp_path, **environ)
    assert done.returncode == 1 and "bad thing" in done.stderr
    assert done.stderr.count("it records in memory") == 1
    report = written_report(recording(tmp_path))  # the files are smaller than the ring
    assert report["last_op"]["op_type"] == "ward_last_op"
    assert not (recording(tmp_path) / "ring.bin").exists()


def test_without_native_code_modules_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"MS_RDR_PATH": str(tmp_path), "OPSCOPE_NATIVE": "0"}
    done = forked_opscope("run", "--no-stats", "train.py", "SIGKILL", cwd=tmp_path, **environ)
    assert done.returncode == -9
    report = json.loads(forked_opscope("report", ".", "--json", cwd=tmp_path).stdout)
    assert report["cause"] == "killed"
    assert report["last_op"]["op"] == "nn.Module" and not report["last_op"]["finished"]
    assert report["last_op"]["scope"] == "Default/network-Net"
    last = report["ranks"][0]["last_operators"][-1]
    assert last["scope"] == "Default/network-Net/fc1-Linear" and last["finished"]


def test_a_report_of_what_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "ring.bin").write_bytes(b"x" * 10)
    done = forked_opscope("report", "ring.bin", cwd=tmp_path)
    assert done.returncode == 2 and "cut off" in done.stderr
    done = forked_opscope("report", "none", cwd=tmp_path)
    assert done.returncode == 2 and "no such path" in done.stderr
    done = forked_opscope("report", "/usr", cwd=tmp_path)
    assert done.returncode == 2 and "holds no recording" in done.stderr


PATCHED = """
import torch, opscope
from torch import nn

opscope.start(stats=False, record=True, run_dir="run", page=False)
nn.Linear(4, 4)(torch.randn(2, 4)).sum().backward()
original = nn.Module.__call__

def call(self, *args, **kwargs):
    return original(self, *args, **kwargs)

nn.Module.__call__ = call
opscope.stop()
nn.Sequential(nn.Linear(4, 4))(torch.randn(2, 4)).sum().backward()
print("ended")
"""


def test_who_has_patched_modules_goes_on_after_the_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PATCHED)
    done = forked_python("train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert "cannot" not in done.stderr
