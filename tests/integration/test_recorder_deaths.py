"""Every way to die that a machine without a GPU can produce: what is left tells of it."""

from __future__ import annotations

import json
import platform
import re
import signal
import sys
from pathlib import Path

import pytest

from helpers.forked import Done, forked_opscope, forked_python
from helpers.recordings import TRAIN, recording, written_report

DOCS = (Path(__file__).parents[2] / "docs" / "recorder.md").read_text()
LINE = 1 + TRAIN.splitlines().index("        h = last_op(h)  # where it dies")

ENABLED = """
import faulthandler, runpy, sys
faulthandler.enable()
sys.argv[:] = ["opscope", "run", "--no-stats", "train.py", "fault"]
runpy.run_module("opscope", run_name="__main__", alter_sys=True)
"""


def train(folder: Path, how: str, *options: str, **environ: str) -> Done:
    """Run the training, which dies in this way, with nothing but the recorder on."""
    (folder / "train.py").write_text(TRAIN)
    environ |= {"MS_RDR_PATH": str(folder), "FOLDER": str(folder)}
    return forked_opscope("run", "--no-stats", *options, "train.py", how, cwd=folder, **environ)


def documented(heading: str) -> set[str]:
    """The names in the first column of a table of the docs."""
    table = DOCS[DOCS.index(heading) :].split("\n\n")[1]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {name.replace("{id}", "0") for row in rows for name in re.findall(r"`([^`]+)`", row)}


ALL = documented('"All" is:')
BY_PROCESS = {"graph_0.pb"}
EXCEPTION = {"exception.txt", "exception.json", *BY_PROCESS}
DEATHS = {
    "raise": (1, "exception", "exception: ValueError: bad thing", EXCEPTION),
    "exit": (7, "exit", "it left with the code 7", BY_PROCESS),
    "exit with words": (1, "exit", "it left with the code 1: no data", BY_PROCESS),
    "exec": (4, "exec", "it replaced itself by another program: sh", set()),
    "_exit": (5, "os._exit", "os._exit(5)", set()),
    "memory": (1, "out of memory", "out of memory: RuntimeError: ", EXCEPTION),
    "overflow": (-signal.SIGSEGV, "SIGSEGV", "SIGSEGV at the address 0x", set()),
    "fault": (-signal.SIGSEGV, "SIGSEGV", "SIGSEGV", set()),
    "SIGINT": (-signal.SIGINT, "SIGINT", "interrupted (KeyboardInterrupt)", EXCEPTION),
} | {
    name: (-getattr(signal, name), name, name, set[str]())
    for name in ("SIGTERM", "SIGHUP", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGUSR1")
}


@pytest.mark.parametrize("how", DEATHS)
def test_the_operator_in_flight_is_named(tmp_path: Path, how: str) -> None:
    code, cause, text, extra = DEATHS[how]
    if how == "overflow" and sys.version_info >= (3, 12):
        pytest.skip("this Python sees to it that its own code does not overflow the stack")
    done = train(tmp_path, how)
    assert done.returncode == code, done.stderr
    report = written_report(recording(tmp_path))
    assert report["cause"] == cause
    assert report["cause_text"].startswith(text)
    last = report["last_op"]
    assert last["op_type"] == "ward_last_op" and last["step"] == 3 and last["phase"] == "forward"
    assert last["scope"] == "Default/network-Net"
    assert last["name"] == "Default/network-Net/ward_last_op-op0"
    assert not last["finished"]
    assert last["raised"] == (report["exception"] is not None or how.startswith("exit"))
    assert last["source"]["line"] == LINE
    assert report["source"]["file"].endswith("train.py")
    files = {path.name for path in recording(tmp_path).iterdir()}
    assert ALL | extra <= files
    assert "last_op" in (recording(tmp_path) / "graph_0.ir").read_text()
    assert (
        "Default/network-Net/ward_last_op-op0"
        in (recording(tmp_path) / "graph_exec_order.0.txt").read_text()
    )
    assert "last_op-op0" in (recording(tmp_path) / "mem_address_list.txt").read_text()
    stacks = (recording(tmp_path) / "stacks.txt").read_text()
    assert ("train.py" if not extra else "Current thread") in stacks
    assert [step["step"] for step in report["steps"]] == [0, 1, 2, 3]
    assert all(isinstance(step["loss"], float) for step in report["steps"][:3])
    assert report["steps"][3]["batch"][0]["shape"] == [8, 16]


def test_kill_9_is_read_from_the_ring(tmp_path: Path) -> None:
    assert train(tmp_path, "SIGKILL").returncode == -signal.SIGKILL
    assert not (recording(tmp_path) / "report.json").exists()
    done = forked_opscope("report", ".", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["cause"] == "killed"
    assert report["last_op"]["op_type"] == "ward_last_op" and not report["last_op"]["finished"]
    assert report["source"]["line"] == LINE
    assert {path.name for path in recording(tmp_path).iterdir()} >= ALL
    ring = recording(tmp_path) / "ring.bin"
    done = forked_opscope("report", str(ring), "--html", "report.html", cwd=tmp_path)
    assert "killed from outside" in (tmp_path / "report.html").read_text(), done.stderr


KEEPS_STATUSES = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 15)


@pytest.mark.parametrize(
    ("how", "code", "cause", "text"),
    [
        ("SIGKILL", -signal.SIGKILL, "killed", "killed from outside (SIGKILL"),
        pytest.param(
            *("native exit", 9, "os._exit", "native code left with the code 9"),
            marks=pytest.mark.skipif(not KEEPS_STATUSES, reason="needs Linux 6.15"),
        ),
    ],
)
def test_the_helper_exports_what_no_handler_saw(
    tmp_path: Path, how: str, code: int, cause: str, text: str
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"OPSCOPE_PAGE": "1", "XDG_STATE_HOME": str(tmp_path / "state")}
    words = ("run", "--run-dir", "run", "train.py", how)
    assert forked_opscope(*words, cwd=tmp_path, **environ).returncode == code
    report = written_report(recording(tmp_path / "run" / "recorder"))
    assert report["cause"] == cause and report["cause_text"].startswith(text)
    assert report["last_op"]["name"] == "Default/network-Net/ward_last_op-op0"


def test_a_hang_is_told_of_while_it_lasts(tmp_path: Path) -> None:
    done = train(tmp_path, "hang", OPSCOPE_RECORD_HANG="1")
    assert done.returncode == 0, done.stderr
    report = written_report(tmp_path / "seen")
    assert report["cause"] == "hang" and report["silent_seconds"] >= 1
    assert report["last_op"]["op_type"] == "ward_last_op" and not report["last_op"]["finished"]
    stacks = (tmp_path / "seen" / "stacks.txt").read_text()
    assert "in deadlock" in stacks and "in wait_for_report" in stacks
    assert not (tmp_path / "rank_0").exists()  # it went on, and ended well


def test_an_operator_that_raises(tmp_path: Path) -> None:
    assert train(tmp_path, "shapes").returncode == 1
    report = written_report(recording(tmp_path))
    assert report["cause"] == "exception" and "cannot be multiplied" in report["cause_text"]
    assert report["last_op"]["raised"] and report["last_op"]["op_type"] == "ward_last_op"
    assert report["last_op"]["inside"] == "aten::mm"
    frame = report["exception"]["frames"][-1]
    assert frame["function"] == "die" and frame["user"]
    forward = next(
        f for f in report["exception"]["frames"] if f["function"] == "forward" and f["user"]
    )
    assert forward["tensors"]["x"]["shape"] == [8, 16]
    assert forward["tensors"]["h"]["min"] >= 0 and forward["tensors"]["h"]["nan"] == 0


def test_backward(tmp_path: Path) -> None:
    assert train(tmp_path, "backward").returncode == 1
    report = written_report(recording(tmp_path))
    assert report["cause_text"] == "exception: RuntimeError: in backward"
    assert report["last_op"]["phase"] == "backward"
    assert report["last_op"]["op_type"] == "_log_softmax_backward_data"


def test_an_operator_that_the_script_calls_in_backward(tmp_path: Path) -> None:
    """It has no line of the forward pass; the exception says which line called it."""
    assert train(tmp_path, "operator in backward").returncode == 1
    report = written_report(recording(tmp_path))
    assert report["last_op"]["op_type"] == "mm" and report["last_op"]["raised"]
    assert report["source"]["code"].endswith("# of the script's own backward")


def test_a_process_without_memory_to_export(tmp_path: Path) -> None:
    """The witness, which has memory, exports instead."""
    assert train(tmp_path, "no memory left").returncode == 1
    report = written_report(recording(tmp_path))
    assert report["cause"] == "out of memory"
    assert report["last_op"]["op_type"] == "ward_last_op" and report["last_op"]["raised"]
    assert {path.name for path in recording(tmp_path).iterdir()} >= ALL


def test_a_fault_that_another_handles_first(tmp_path: Path) -> None:
    """Python's faulthandler, enabled before us, ends the process itself."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "first.py").write_text(ENABLED)
    done = forked_python("first.py", cwd=tmp_path, MS_RDR_PATH=str(tmp_path))
    assert done.returncode == -signal.SIGSEGV and "Segmentation fault" in done.stderr
    assert written_report(recording(tmp_path))["cause"] == "SIGSEGV"


def test_a_thread(tmp_path: Path) -> None:
    done = train(tmp_path, "thread")
    assert done.returncode == 0 and "done" in done.stdout
    report = written_report(recording(tmp_path))
    assert report["cause_text"] == "exception in the thread worker: KeyError: 'missing'"


@pytest.mark.parametrize(("how", "code"), [("handled", 0), ("handled, 20", 20)])
def test_a_signal_that_the_script_handles(tmp_path: Path, how: str, code: int) -> None:
    assert train(tmp_path, how).returncode == code
    report = written_report(recording(tmp_path))
    assert report["cause"] == "SIGTERM" and "the script handled" in report["cause_text"]


@pytest.mark.parametrize("how", ["well", "ignored", "fork", "workers"])
def test_what_ends_well_leaves_nothing(tmp_path: Path, how: str) -> None:
    done = train(tmp_path, how)
    assert done.returncode == 0 and "done" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]
    if how == "fork" and sys.version_info >= (3, 12):
        assert "use of fork() may lead to deadlocks" in done.stderr  # with a thread: ours
    else:
        assert done.stderr == ""


def test_training_is_not_changed(tmp_path: Path) -> None:
    recorded = train(tmp_path, "well").stdout
    assert recorded == forked_python("train.py", "well", cwd=tmp_path).stdout


def test_mode_2_exports_a_good_end_and_step_0(tmp_path: Path) -> None:
    assert train(tmp_path, "well", MS_RDR_MODE="2").returncode == 0
    folder = recording(tmp_path)
    report = written_report(folder)
    assert report["cause"] == "end" and report["step"] == 6
    first = written_report(folder / "step_0")
    assert [step["step"] for step in first["steps"]] == [0]
    assert ALL - {"facts.json", "ring.bin"} <= {path.name for path in (folder / "step_0").iterdir()}


def test_a_second_run_moves_the_first_aside(tmp_path: Path) -> None:
    assert train(tmp_path, "raise").returncode == train(tmp_path, "shapes").returncode == 1
    assert "multiplied" in written_report(recording(tmp_path))["cause_text"]
    assert "bad thing" in written_report(recording(tmp_path).with_name("rdr.1"))["cause_text"]


SUBCLASS = """
import torch

class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise ValueError(f"as planned after {torch.ones(3).cumsum(0)}")

torch.ones(2).exp()
Wrapped(torch.ones(2)) * 2
"""


def test_what_a_tensor_subclass_ran_inside_an_operator_is_named(tmp_path: Path) -> None:
    """What torch's own operators do inside is not looked at, but here it may be a collective."""
    (tmp_path / "train.py").write_text(SUBCLASS)
    words = ("run", "--no-stats", "--run-dir", "run", "train.py")
    assert forked_opscope(*words, cwd=tmp_path).returncode == 1
    last = written_report(recording(tmp_path / "run" / "recorder"))["last_op"]
    assert last["op"] == "aten::mul" and last["raised"] and last["inside"]
