from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_dump import NewDump, make_node
from safetensors.numpy import load_file

from opscope.atomic_files import TempFiles, make_directory
from opscope.dump.format.pack import Pack, PackReader
from opscope.dump.format.unpack import unpack

ARRAYS = {
    "a.float32.npy": np.arange(6, dtype="f4").reshape(2, 3),
    "scalar.float64.npy": np.float64(1.5) * np.ones(()),
    "empty.int64.npy": np.zeros((0, 3), np.int64),
    "yes.bool.npy": np.array([True, False]),
    "c.complex64.npy": np.array([1 + 2j, 3 - 4j], np.complex64),
    "z.complex128.npy": np.ones((2, 2), np.complex128) * 1j,
    "t.float32.npy": np.arange(6, dtype="f4").reshape(2, 3).T,
    "h.float16.npy": np.ones(3, np.float16),
    "u.uint16.npy": np.arange(5, dtype=np.uint16),
}


def make_pack(folder: Path, reserve: int = 1000) -> Pack:
    temp = TempFiles(folder / ".tmp", "t")
    make_directory(temp.directory)
    return Pack(temp, reserve)


@pytest.mark.parametrize("large", [0, 40_000, 3_000_000])
@pytest.mark.parametrize("reserve", [8, 100_000], ids=["too little room", "room"])
def test_values_come_back(tmp_path: Path, large: int, reserve: int) -> None:
    pack = make_pack(tmp_path, reserve)
    arrays = dict(ARRAYS)
    for name, array in arrays.items():
        pack.add(name, array)
    for number in range(3 if large else 0):
        arrays[f"large{number}.float32.npy"] = np.full(large, number, np.float32)
        pack.add(f"large{number}.float32.npy", arrays[f"large{number}.float32.npy"])
    pack.repeat("again.float32.npy", "a.float32.npy")
    file = tmp_path / "values.safetensors"
    size = pack.finish(str(file))
    assert size == file.stat().st_size
    assert list((tmp_path / ".tmp").iterdir()) == []
    reader = PackReader(file)
    assert reader.is_dump
    assert len(reader) == pack.values == len(arrays) + 1
    for name, array in arrays.items():
        assert reader[name].dtype == array.dtype
        np.testing.assert_array_equal(reader[name], array)
    np.testing.assert_array_equal(reader["again.float32.npy"], arrays["a.float32.npy"])
    others = load_file(file)
    assert others.keys() == arrays.keys(), "any reader of safetensors opens it"
    np.testing.assert_array_equal(others["t.float32.npy"], ARRAYS["t.float32.npy"])


def test_memory_may_change_after_a_value_was_added(tmp_path: Path) -> None:
    pack = make_pack(tmp_path)
    small, large = np.zeros(4, np.float32), np.zeros(100_000, np.float32)
    pack.add("small.float32.npy", small)
    pack.add("large.float32.npy", large)
    small += 1
    large += 1
    pack.finish(str(tmp_path / "p"))
    reader = PackReader(tmp_path / "p")
    assert not reader["small.float32.npy"].any()
    assert not reader["large.float32.npy"].any()


def test_unpacking_links_what_repeats_and_shortens_names(tmp_path: Path) -> None:
    pack = make_pack(tmp_path)
    long = f"{'n' * 300}.float32.npy"
    pack.add("a.float32.npy", ARRAYS["a.float32.npy"])
    pack.add(long, ARRAYS["a.float32.npy"] + 1)
    pack.repeat("b.float32.npy", "a.float32.npy")
    file = tmp_path / "values.safetensors"
    pack.finish(str(file))
    for _ in range(2):
        assert unpack(file, tmp_path / "out")[0] == 3
    out = tmp_path / "out"
    assert (out / "a.float32.npy").samefile(out / "b.float32.npy")
    (line,) = (out / "mapping.csv").read_text().splitlines()
    short, name = line.split(",")
    assert name == long
    np.testing.assert_array_equal(np.load(out / short), ARRAYS["a.float32.npy"] + 1)


def test_names_cannot_leave_the_directory(tmp_path: Path) -> None:
    from opscope.errors import OpscopeError

    pack = make_pack(tmp_path)
    pack.add("../outside.float32.npy", np.zeros(1, np.float32))
    pack.finish(str(tmp_path / "p"))
    with pytest.raises(OpscopeError, match="no name of a file"):
        unpack(tmp_path / "p", tmp_path / "out")
    assert not (tmp_path / "outside.float32.npy").exists()


def test_a_value_larger_than_all_shared_memory(new_dump: NewDump) -> None:
    value = torch.arange(100_000.0)
    with new_dump(False, options={"memory_limit": 200_000}, file_format="bin") as dump:
        dump.call(make_node("D/a-op0"), outputs=[torch.ones(3)])
        dump.call(make_node("D/b-op0"), outputs=[value])
        dump.end_step()
    reader = PackReader(dump.directory() / "values.safetensors")
    (name,) = [each for each in reader if each.startswith("relu.D_b")]
    np.testing.assert_array_equal(reader[name], value.numpy())
    assert len(reader) == 2
    assert not list(dump.root.rglob(".tmp"))


def test_a_pack_of_an_unfinished_step_is_kept(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, file_format="bin") as dump:
        dump.call(make_node("D/a-op0"), outputs=[torch.ones(3)])
    assert len(PackReader(dump.directory() / "values.safetensors")) == 1
    (entry,) = dump.manifest()["iterations"]
    assert (entry["files"], entry["values"], entry["complete"]) == (1, 1, False)


def test_repeated_values_are_in_it_once(new_dump: NewDump) -> None:
    first, second = make_node("D/a-op0"), make_node("D/b-op0")
    value = torch.arange(4.0)
    with new_dump(False, file_format="bin") as dump:
        dump.call(first, outputs=[value])
        dump.call(second, [value], sources=[first.outputs[0]])
        dump.end_step()
    file = dump.directory() / "values.safetensors"
    reader = PackReader(file)
    assert (len(reader), len(reader.repeats)) == (2, 1)
    (again,) = reader.repeats
    np.testing.assert_array_equal(reader[again], value.numpy())
