from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import MadeDump, NewDump, make_node, make_settings
from writing_process import wait_for, writer_pid

from opscope.dump.format.manifest import Manifest
from opscope.dump.format.subject import Label, Moment, StoredType, Subject
from opscope.dump.layout import DumpFolder
from opscope.dump.transport import background
from opscope.dump.transport.arena import Arena
from opscope.dump.transport.memory import DONE, SharedMemory
from opscope.dump.transport.store import Store, StorePlan
from opscope.events import Outside, PassingValue


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the copies that were made."""
    sizes: list[int] = []
    allocate = Arena.allocate

    def counting(self: Arena, nbytes: int) -> object:
        sizes.append(nbytes)
        return allocate(self, nbytes)

    monkeypatch.setattr(Arena, "allocate", counting)
    return sizes


def test_an_output_that_is_the_next_input_is_copied_once(
    new_dump: NewDump, copies: list[int]
) -> None:
    nodes = [make_node(f"D/a-op{number}") for number in range(4)]
    value = torch.arange(100.0)
    with new_dump(enable=False) as dump:
        dump.call(nodes[0], outputs=[value])
        for node in nodes[1:]:
            dump.call(node, [value], sources=[nodes[0].outputs[0]])
        dump.end_step()
    assert len(copies) == 1
    for number in range(4):
        assert dump.load(f"relu.D_a-op{number}.*").tolist() == value.tolist()


def test_a_repeated_value_takes_its_room_on_disk_once(new_dump: NewDump) -> None:
    maker, value = make_node("D/maker-op0"), torch.arange(1000.0)
    with new_dump(enable=False, saved_data="full", statistic_category=["max", "md5"]) as dump:
        for _ in range(2):
            dump.call(maker, outputs=[value])
            dump.call(make_node("D/user-op0"), [value], sources=[maker.outputs[0]])
            dump.end_step()
    for step in range(2):
        inodes = {file.stat().st_ino for file in dump.directory(step).glob("*.npy")}
        assert len(inodes) == 1
        assert len(dump.files(step)) == 2
        assert len({row["MD5"] for row in dump.table(step)}) == 1
    first, second = dump.manifest()["iterations"]
    assert first["files"] == second["files"] == 2
    assert first["bytes"] == 2 * (4000 + 128)


def test_without_hard_links_a_repeated_value_is_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path, StorePlan("Net"), Manifest("run", 0), "t")
    store.prepare("{}", "{}")
    label, kind = Label(0, "a.D_a", "a,D/a", "D/a"), StoredType("float32", (3,))
    one, two, three = (Subject(label, Moment(n, 0, 0, "output", 0), kind) for n in range(3))
    array, place = np.arange(3, dtype="f4"), DumpFolder(0, 0)
    store.save(place, one, array)
    store.repeat(place, store.path(place, two), array, store.path(place, one))
    store.repeat(place, store.path(place, three), array, "/proc/self/status")
    files = sorted((tmp_path / "Net/0/0").glob("*.npy"))
    assert [file.stat().st_nlink for file in files] == [2, 2, 1]
    assert all((np.load(file) == array).all() for file in files)
    assert store.manifest.iterations[0].files == 3


def test_the_result_of_an_inplace_operator_is_copied_once(
    new_dump: NewDump, copies: list[int]
) -> None:
    first, second, value = make_node("D/a-op0"), make_node("D/b-op0"), torch.zeros(4)
    with new_dump(enable=False) as dump:
        call = dump.call(first, [value])
        numpy_view = value.numpy()
        numpy_view += 1
        dump.sink.outputs(call, [PassingValue(0, value, None)])
        torch.autograd.graph.increment_version(value)
        dump.call(second, [value], sources=[first.outputs[0]])
    assert len(copies) == 2
    assert dump.load("relu.D_b-op0.*").tolist() == [1, 1, 1, 1]


def test_a_parameter_is_copied_once(new_dump: NewDump, copies: list[int]) -> None:
    node, weight = make_node(), torch.nn.Parameter(torch.ones(4))
    with new_dump(enable=False) as dump:
        dump.parameter(node, "weight", weight)
        dump.call(node, [weight], sources=[Outside("parameter", "weight")])
        dump.call(node, [weight], sources=[Outside("batch", "weight")])
    assert len(copies) == 2


@pytest.mark.parametrize("kind", ["other tensor", "other view", "other source", "no source"])
def test_other_values_are_copied_anew(new_dump: NewDump, copies: list[int], kind: str) -> None:
    maker, value = make_node("D/maker-op0"), torch.arange(4.0)
    source = {"other source": make_node().outputs[0], "no source": None}.get(kind, maker.outputs[0])
    given = {"other tensor": value.clone(), "other view": value[1:]}.get(kind, value)
    with new_dump(enable=False) as dump:
        dump.call(maker, outputs=[value])
        dump.call(make_node("D/user-op0"), [given], sources=[source])
    assert len(copies) == 2


def test_a_change_that_capture_did_not_see_is_noticed(new_dump: NewDump, copies: list[int]) -> None:
    maker, value = make_node("D/maker-op0"), torch.zeros(4)
    with new_dump(enable=False) as dump:
        dump.call(maker, outputs=[value])
        value.add_(1)
        dump.call(make_node("D/user-op0"), [value], sources=[maker.outputs[0]])
    assert len(copies) == 2
    assert dump.load("*user*").tolist() == [1, 1, 1, 1]


def test_nothing_is_shared_between_steps(new_dump: NewDump, copies: list[int]) -> None:
    maker, value = make_node("D/maker-op0"), torch.zeros(4)
    with new_dump(enable=False) as dump:
        dump.call(maker, outputs=[value])
        dump.end_step()
        dump.call(make_node("D/user-op0"), [value], sources=[maker.outputs[0]])
    assert len(copies) == 2


def test_an_output_is_always_copied_anew(new_dump: NewDump) -> None:
    maker = make_node("D/maker-op0")
    value = np.zeros(4, "f4")
    tensor = torch.from_numpy(value)
    with new_dump(enable=False) as dump:
        for number in range(3):
            value[:] = number
            dump.call(maker, outputs=[tensor])
    assert [dump.load(f"*.{index}.0.*.output*")[0] for index in range(3)] == [0, 1, 2]


def test_memory_is_bounded_and_training_waits(tmp_path: Path) -> None:
    limit, size = 1_000_000, 100_000
    dump = MadeDump(make_settings(tmp_path / "dump", enable=False), memory_limit=limit)
    dump.sink.open(0)
    pid = writer_pid(tmp_path)
    given: list[int] = []

    def train() -> None:
        for number in range(50):
            tensor = torch.full((size // 4,), float(number))
            dump.call(make_node(f"D/a-op{number}"), outputs=[tensor])
            tensor.fill_(-1)
            given.append(number)

    os.kill(pid, signal.SIGSTOP)
    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        memory = dump.sink._recorder._writer._memory  # type: ignore[union-attr]
        wait_for(lambda: len(given) - int(memory.counters[DONE]) >= 8)
        time.sleep(0.3)
        assert trainer.is_alive()
        assert (len(given) - int(memory.counters[DONE])) * size <= limit
        assert memory.arena_bytes == limit
    finally:
        os.kill(pid, signal.SIGCONT)
    trainer.join(30)
    dump.sink.close()
    assert len(given) == 50
    for number in range(50):
        assert set(dump.load(f"relu.D_a-op{number}.*")) == {number}


def test_memory_that_is_used_again_holds_the_right_values(tmp_path: Path) -> None:
    sizes = np.random.default_rng(0).integers(0, 4000, 600)
    settings = make_settings(tmp_path / "dump", enable=False)
    with MadeDump(settings, memory_limit=50_000) as dump:
        for number, size in enumerate(sizes):
            tensor = torch.full((int(size),), number, dtype=torch.int16)
            dump.call(make_node(f"D/a-op{number}"), outputs=[tensor])
        dump.end_step()
    for number, size in enumerate(sizes):
        array = dump.load(f"relu.D_a-op{number}.*")
        assert array.shape == (size,)
        assert (array == number).all()


def test_threads_may_dump_at_once(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="full", statistic_category=["max", "md5"]) as dump:
        call = dump.call(make_node())

        def work(thread: int) -> None:
            for number in range(50):
                value = thread * 100.0 + number
                node = make_node(f"D/a{thread}-op{number}")
                dump.call(node, outputs=[torch.full((10,), value)])

        threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert call.index == 0
    assert len(dump.files()) == len(dump.table()) == 200
    assert dump.load("*a3-op49.*")[0] == 349


def test_closing_says_how_far_it_is(
    new_dump: NewDump, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dump = new_dump(enable=False)
    dump.sink.open(0)
    pid = writer_pid(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    for number in range(5):
        dump.call(make_node(f"D/a-op{number}"), outputs=[torch.ones(1)])
    threading.Timer(1.5, os.kill, (pid, signal.SIGCONT)).start()
    dump.sink.close()
    assert "writing dump: 0 of 5 parts" in capfd.readouterr().err
    assert len(dump.files()) == 5
    assert dump.manifest()["complete"]


def test_the_writing_process_is_apart_from_the_script(new_dump: NewDump, tmp_path: Path) -> None:
    with new_dump(enable=False) as dump:
        pid = writer_pid(tmp_path)
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" not in status
        assert os.getsid(pid) != os.getsid(0)
        assert str(Path(f"/proc/{pid}/fd/1").readlink()) == "/dev/null"
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "libtorch" not in maps
        dump.call(make_node(), outputs=[torch.ones(1)])
    assert wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_signals_that_end_a_training_do_not_end_the_writing(
    new_dump: NewDump, tmp_path: Path
) -> None:
    with new_dump(enable=False) as dump:
        dump.call(make_node("D/a-op0"), outputs=[torch.ones(1)])
        dump.end_step()
        assert wait_for(dump.files)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(writer_pid(tmp_path), number)
        dump.call(make_node("D/b-op0"), outputs=[torch.ones(1)])
        dump.end_step()
    assert len(dump.files(1)) == 1
    assert dump.manifest()["complete"]


def test_large_values_are_written_at_once_and_right(new_dump: NewDump) -> None:
    nodes = [make_node(f"D/a-op{number}") for number in range(40)]
    with new_dump(enable=False, saved_data="full", statistic_category=["max", "md5"]) as dump:
        for _ in range(2):
            for number, node in enumerate(nodes):
                value = torch.full((100_000 if number % 3 else 10,), float(number))
                dump.call(node, outputs=[value])
                dump.call(make_node(f"D/b-op{number}"), [value], sources=[node.outputs[0]])
            dump.end_step()
    for step in range(2):
        assert len(dump.files(step)) == len(dump.table(step)) == 80
        for number in range(40):
            for name in "ab":
                array = dump.load(f"relu.D_{name}-op{number}.*", step)
                assert set(array) == {number}
    first, second = dump.manifest()["iterations"]
    assert first["complete"] and second["complete"]
    assert first["files"] == second["files"] == 80


def test_a_writing_process_that_is_killed_ends_the_dump_only(
    new_dump: NewDump, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_dump(enable=False, options={"memory_limit": 100_000}) as dump:
        node = make_node()
        dump.call(node, outputs=[torch.ones(1000)])
        os.kill(writer_pid(tmp_path), signal.SIGKILL)
        for _ in range(200):
            dump.call(node, outputs=[torch.ones(1000)])
        dump.end_step()
        assert not dump.sink.wants_step(1)
        assert not dump.sink.wants(make_node())
    said = capfd.readouterr().err
    assert said.count("the dump stops here, training goes on") == 1
    assert "the process that writes it ended" in said
    assert dump.manifest()["complete"] is False


def test_without_a_process_values_are_written_at_once(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with new_dump(enable=False) as dump:
        dump.call(make_node(), outputs=[torch.ones(1)])
        assert len(dump.files()) == 1
    assert "cannot write in the background" in capfd.readouterr().err
    assert dump.manifest()["complete"]


def test_the_config_in_the_environment_does_not_reach_the_process(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MINDSPORE_DUMP_CONFIG", str(tmp_path / "dump.json"))
    with new_dump(enable=False) as dump:
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.end_step()
    assert dump.manifest()["complete"]
    assert not (dump.settings.path / ".previous").exists()


def test_the_process_does_without_native_code_if_it_shall(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPSCOPE_NATIVE", "0")
    with new_dump(enable=False, saved_data="statistic") as dump:
        dump.call(make_node(), [torch.ones(1)])
        dump.end_step()
        assert wait_for((dump.directory() / "statistic.csv").exists)
        assert "stats-" not in Path(f"/proc/{writer_pid(tmp_path)}/maps").read_text()
    assert [row["Max Value"] for row in dump.table()] == ["1.0"]


def test_synchronous_values_are_on_disk_at_once(new_dump: NewDump) -> None:
    with new_dump(enable=True, saved_data="full", statistic_category=["max", "md5"]) as dump:
        for count in range(1, 4):
            dump.call(make_node(), outputs=[torch.ones(1)])
            assert len(dump.files()) == len(dump.table()) == count


def test_a_process_with_many_open_files(new_dump: NewDump) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip("this machine does not allow enough open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    null = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        with new_dump(enable=False) as dump:
            dump.call(make_node(), outputs=[torch.ones(1)])
            dump.end_step()
    finally:
        for descriptor in null:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(dump.files()) == 1


@pytest.mark.parametrize("contiguous", [True, False])
def test_an_interrupted_copy_is_not_found_later(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch, contiguous: bool
) -> None:
    maker, value = make_node("D/maker-op0"), torch.arange(8.0)[:: 1 if contiguous else 2]
    with new_dump(enable=False) as dump:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SharedMemory, "array", _interrupt)
            patch.setattr(background, "memmove", _interrupt)
            dump.call(maker, outputs=[value])
        dump.call(make_node("D/user-op0"), [value], sources=[maker.outputs[0]])
        dump.end_step()
    assert dump.load("*user*").tolist() == value.tolist()
    assert len(dump.files()) == 1
    assert dump.manifest()["complete"]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
