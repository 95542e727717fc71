"""The options of the dump on a real training, against the values of a plain run of it."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from test_dump_shared import (
    NET,
    PARAMETERS,
    SCRIPT,
    Files,
    Step,
    assert_holds,
    expected,
    load,
    manifest,
    name_of,
    npy_files,
    plain_run,
    read_step,
    rows,
    write_config,
)

from helpers.forked import forked_opscope as opscope

FC2 = f"{NET}/fc2-Linear/addmm-op0"
CATEGORIES = [
    *("md5", "positive inf count", "negative inf count", "nan count", "zero count"),
    *("positive zero count", "negative zero count", "count", "l2norm", "avg", "min", "max"),
    "hash",
]
COLUMNS = [
    *("MD5", "Positive Inf Count", "Negative Inf Count", "NaN Count", "Zero Count"),
    *("Positive Zero Count", "Negative Zero Count", "Count", "L2Norm Value", "Avg Value"),
    *("Min Value", "Max Value", "SHA1"),
]
FULL = {"saved_data": "full", "iteration": "0|2-3", "statistic_category": CATEGORIES}

NUMBERS = [each for each in CATEGORIES if each not in ("md5", "hash")]
"""Without a digest, rows come ready and no value is looked at."""
STATISTIC = {"saved_data": "statistic", "iteration": "0|2-3", "statistic_category": NUMBERS}

CONFIGS = {
    "rows": STATISTIC | {"enable": False},
    "rows of outputs": STATISTIC | {"input_output": 2},
    "sync": FULL | {"support_device": [0]},
    "async": FULL | {"enable": False},
    "full name": {"dump_mode": 1, "kernels": [FC2], "iteration": " 0 | 2 - 3 ", "input_output": 1},
    "type": {"dump_mode": 1, "kernels": ["addmm"], "input_output": 2, "net_name": "Tiny"},
    "upper case": {
        "dump_mode": 1,
        "kernels": ["ADDMM"],
        "initial_iteration": 10,
        "iteration": "10|12-13",
        "saved_data": "statistic",
        "statistic_category": ["hash:sha1", "max", "hash:md5"],
    },
    "module class": {"dump_mode": 1, "kernels": ["Linear"], "iteration": "0"},
    "regex": {
        "dump_mode": 1,
        "iteration": "1",
        "kernels": [
            *(r"name-regex(Default/.*fc\d-Linear/addmm-op0)", "name-regex(fc2-Linear/addmm)"),
            *("Convolution", f"{NET}/fc9-Linear/addmm-op0"),
        ],
    },
}


@dataclass
class Done:
    """A finished run and where its dump is."""

    process: subprocess.CompletedProcess[str]
    dump: Path

    def step(self, number: int, net: str = "Net") -> Path:
        return self.dump / "rank_0" / net / "0" / str(number)

    def steps(self, net: str = "Net") -> list[int]:
        folders = self.step(0, net).parent.iterdir()
        return sorted(int(each.name) for each in folders if each.name != "constants")


@pytest.fixture(scope="module")
def plain() -> list[Step]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = plain_run()
    torch.set_num_threads(threads)
    return steps


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """`dumped(name)` runs the training with that config, once."""
    finished: dict[str, Done] = {}

    def run(name: str) -> Done:
        if name not in finished:
            folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
            (folder / "train.py").write_text(SCRIPT)
            config = write_config(folder, **CONFIGS[name])
            process = opscope("run", "--dump", config, "train.py", cwd=folder)
            assert process.returncode == 0, process.stderr
            assert process.stdout == "trained\n"
            assert "internal error" not in process.stderr
            finished[name] = Done(process, folder / "dump")
        return finished[name]

    return run


def test_every_operator_holds_the_values_of_the_plain_run(dumped, plain) -> None:
    done = dumped("sync")
    for number in (0, 2, 3):
        assert_holds(read_step(done.step(number)), expected(plain[number]))


def test_iterations_and_nothing_else_are_dumped(dumped) -> None:
    assert dumped("sync").steps() == [0, 2, 3]
    assert dumped("type").steps("Tiny") == [0, 1, 2, 3]
    assert dumped("full name").steps() == [0, 2, 3], "blanks do not matter"


def test_iterations_count_from_initial_iteration(dumped, plain) -> None:
    done = dumped("upper case")
    assert done.steps() == [10, 12, 13]
    (row,) = (
        row
        for row in rows(done.step(12) / "statistic.csv")
        if row["Op Name"] == FC2 and row["IO"] == "output"
    )
    assert float(row["Max Value"]) == plain[2]["fc2"].max()


def select(step: Step, *names: str, io: tuple[str, ...] = ("input", "output")) -> Files:
    """The expected files of these operators."""
    wanted = {name.replace("/", "_") for name in names}
    return {
        key: value for key, value in expected(step).items() if key[0] in wanted and key[1] in io
    }


def without_parameters(files: Files) -> Files:
    return {key: value for key, value in files.items() if not key[0].startswith("Parameter.")}


def test_kernels_by_full_name_and_only_inputs(dumped, plain) -> None:
    for number in (0, 2, 3):
        found = read_step(dumped("full name").step(number))
        wanted = select(plain[number], FC2, io=("input",))
        assert found.keys() == wanted.keys()
        assert_holds(found, wanted)


def test_kernels_by_type_and_only_outputs_in_net_name(dumped, plain) -> None:
    for number in range(4):
        found = without_parameters(read_step(dumped("type").step(number, "Tiny")))
        wanted = select(plain[number], FC2, FC2.replace("fc2", "fc1"), io=("output",))
        assert found.keys() == wanted.keys()
        assert_holds(found, wanted)


def test_kernels_by_type_in_any_case_as_statistics_only(dumped, plain) -> None:
    done = dumped("upper case")
    assert npy_files(done.dump) == []
    for number in (10, 12, 13):
        table = rows(done.step(number) / "statistic.csv")
        table = [row for row in table if row["Op Type"] != "Parameter"]
        wanted = select(plain[number - 10], FC2, FC2.replace("fc2", "fc1"))
        assert {(r["Op Name"].replace("/", "_"), r["IO"], int(r["Slot"])) for r in table} == {
            *wanted
        }
        for row in table:
            array = wanted[row["Op Name"].replace("/", "_"), row["IO"], int(row["Slot"])]
            assert list(row)[-3:] == ["SHA1", "Max Value", "MD5"]
            assert row["SHA1"] == hashlib.sha1(array.tobytes()).hexdigest()
            assert row["MD5"] == hashlib.md5(array.tobytes()).hexdigest()


def test_kernels_by_module_class(dumped, plain) -> None:
    found = without_parameters(read_step(dumped("module class").step(0)))
    names = {name for name, _, _ in found}
    assert names
    assert all("-Linear_" in name for name in names)
    wanted = {key: value for key, value in expected(plain[0]).items() if "-Linear_" in key[0]}
    assert_holds(found, wanted)


def test_kernels_by_regex_match_the_whole_name(dumped, plain) -> None:
    found = without_parameters(read_step(dumped("regex").step(1)))
    wanted = select(plain[1], FC2, FC2.replace("fc2", "fc1"))
    assert found.keys() == wanted.keys()
    assert_holds(found, wanted)


def test_kernels_that_never_matched_are_reported_once_at_the_end(dumped) -> None:
    lines = dumped("regex").process.stderr.splitlines()
    unmatched = [line for line in lines if "matched no operator" in line]
    assert len(unmatched) == 3, lines
    assert ".*fc2-Linear/addmm.*" in unmatched[0], "a hint, because a search would match"
    assert '"Convolution"' in unmatched[1]
    assert "did you mean" in unmatched[2]
    assert "addmm-op0)" not in "".join(unmatched), "what matched is not reported"


def test_saved_data_tensor_writes_no_table(dumped) -> None:
    assert list(dumped("type").dump.rglob("statistic.csv")) == []


def test_saved_data_full_has_a_row_for_every_file(dumped) -> None:
    done = dumped("sync")
    for number in (0, 2, 3):
        named = sorted(
            (parts[0], *parts[2:4], *parts[5:7], parts[8])
            for parts in map(name_of, done.step(number).glob("*.npy"))
        )
        table = rows(done.step(number) / "statistic.csv")
        keys = ("Op Type", "Task ID", "Stream ID", "IO", "Slot", "Data Type")
        assert sorted(tuple(row[key] for key in keys) for row in table) == named


def test_support_device_is_said_once_to_do_nothing_on_the_cpu(dumped) -> None:
    stderr = dumped("sync").process.stderr
    assert stderr.count("support_device") == 1
    assert "support_device" not in dumped("async").process.stderr


def numpy_row(array: np.ndarray) -> dict[str, object]:
    x = array.astype(np.float64)
    return {
        "MD5": hashlib.md5(array.tobytes()).hexdigest(),
        "Positive Inf Count": np.isposinf(x).sum(),
        "Negative Inf Count": np.isneginf(x).sum(),
        "NaN Count": np.isnan(x).sum(),
        "Zero Count": (x == 0).sum(),
        "Positive Zero Count": (x > 0).sum(),
        "Negative Zero Count": (x < 0).sum(),
        "Count": x.size,
        "L2Norm Value": np.sqrt((x * x).sum()),
        "Avg Value": x.mean(),
        "Min Value": x.min(),
        "Max Value": x.max(),
        "SHA1": hashlib.sha1(array.tobytes()).hexdigest(),
    }


@pytest.mark.parametrize("name", ["sync", "async"])
def test_statistics_are_those_of_numpy_in_the_users_order(dumped, plain, name) -> None:
    for number in (0, 2, 3):
        file = dumped(name).step(number) / "statistic.csv"
        header = file.read_text().splitlines()[0].split(",")
        assert header[-len(COLUMNS) :] == COLUMNS
        table = {}
        for row in rows(file):
            key = row["Op Name"].replace("/", "_").replace(".", "_")
            prefix = "Parameter." if row["Op Type"] == "Parameter" else ""
            table[prefix + key, row["IO"], int(row["Slot"])] = row
        for key, array in expected(plain[number]).items():
            row = table[key]
            assert row["Data Type"] == "float32"
            assert json.loads(row["Shape"]) == list(array.shape)
            assert int(row["Data Size"]) == array.nbytes
            for column, value in numpy_row(array).items():
                if isinstance(value, str):
                    assert row[column] == value, (key, column)
                else:
                    assert float(row[column]) == pytest.approx(value, rel=1e-12), (key, column)


def without_timestamps(done: Done) -> dict[str, bytes]:
    """All files of the iterations; the timestamp is in the names and in one column."""
    found = {}
    for file in npy_files(done.dump):
        parts = name_of(file)
        found[".".join([file.parent.name, *parts[:4], *parts[5:]])] = file.read_bytes()
    for file in done.dump.rglob("statistic.csv"):
        table = [{**row, "Timestamp": ""} for row in rows(file)]
        found[f"{file.parent.name}/statistic.csv"] = json.dumps(table).encode()
    return found


def test_synchronous_and_asynchronous_write_the_same(dumped) -> None:
    sync, background = without_timestamps(dumped("sync")), without_timestamps(dumped("async"))
    assert len(sync) > 200
    assert sync.keys() == background.keys()
    assert [name for name in sync if sync[name] != background[name]] == []


@pytest.mark.parametrize("name", ["rows", "rows of outputs"])
def test_rows_that_come_ready_are_those_made_of_the_values(dumped, name) -> None:
    done = dumped(name)
    assert npy_files(done.dump) == []
    for number in (0, 2, 3):
        values = rows(dumped("sync").step(number) / "statistic.csv")
        if "outputs" in name:
            values = [row for row in values if row["IO"] == "output"]
        table = rows(done.step(number) / "statistic.csv")
        assert len({row["Op Name"] for row in table if row["Op Type"] == "Parameter"}) == 4
        assert len(table) == len(values)
        for row, value in zip(table, values, strict=True):
            about = (*list(row)[:4], *list(row)[5:10])
            assert [row[key] for key in about] == [value[key] for key in about]
            for key in list(row)[10:]:
                assert float(row[key]) == pytest.approx(float(value[key]), rel=1e-12), (about, key)


def test_in_place_operators_have_the_value_before_as_input(dumped, plain) -> None:
    for number in (0, 2, 3):
        found = read_step(dumped("async").step(number))
        for index, name in enumerate(PARAMETERS):
            update = f"Default_optimizer-SGD_add_-op{index}"
            before, after = plain[number]["before"][name], plain[number]["after"][name]
            assert not np.array_equal(before, after)
            np.testing.assert_array_equal(found[update, "input", 0], before)
            np.testing.assert_array_equal(found[update, "output", 0], after)


def test_views_are_written(dumped, plain) -> None:
    found = read_step(dumped("sync").step(2))
    for layer in ("fc1", "fc2"):
        key = f"{NET}/{layer}-Linear/t-op0".replace("/", "_")
        np.testing.assert_array_equal(
            found[key, "output", 0], plain[2]["before"][f"{layer}.weight"].T
        )


def test_parameters_are_the_weights_that_the_step_used(dumped, plain) -> None:
    for number in (0, 2, 3):
        found = read_step(dumped("sync").step(number))
        keys = [key for key in found if key[0].startswith("Parameter.")]
        assert sorted(keys) == sorted(
            (f"Parameter.{name.replace('.', '_')}", "output", 0) for name in PARAMETERS
        )
        for name in PARAMETERS:
            weight = found[f"Parameter.{name.replace('.', '_')}", "output", 0]
            np.testing.assert_array_equal(weight, plain[number]["before"][name])


def test_execution_order(dumped) -> None:
    done = dumped("sync")
    folder = done.dump / "rank_0" / "execution_order"
    header, *names = (folder / "ms_execution_order_graph_0.csv").read_text().splitlines()
    assert header == "NodeExecutionOrder-FullNameWithScope"
    forward = [name for name in names if name.startswith(NET)]
    assert forward == [
        *(f"{NET}/fc1-Linear/t-op0", f"{NET}/fc1-Linear/addmm-op0", f"{NET}/act-ReLU/relu-op0"),
        *(f"{NET}/fc2-Linear/t-op0", f"{NET}/fc2-Linear/addmm-op0"),
    ]
    assert names[-4:] == [f"Default/optimizer-SGD/add_-op{number}" for number in range(4)]
    by_task = {int(name_of(f)[2]): name_of(f)[1] for f in done.step(2).glob("[!P]*.npy")}
    assert [by_task[task] for task in sorted(by_task)] == [n.replace("/", "_") for n in names]
    iterations = (folder / "ms_global_execution_order_graph_0.csv").read_text().split()
    assert iterations == ["0", "2", "3"]


@pytest.mark.parametrize("name", ["sync", "async"])
def test_metadata(dumped, name) -> None:
    done = dumped(name)
    folder = done.dump / "rank_0" / ".dump_metadata"
    config = done.dump.parent / "dump.json"
    assert (folder / "data_dump.json").read_bytes() == config.read_bytes()
    versions = json.loads((folder / "config.json").read_text())
    assert versions["torch_version"] == torch.__version__
    assert versions["numpy_version"] == np.__version__
    assert versions["python_version"] == platform.python_version()
    assert versions["device_target"] == "CPU"
    listed = manifest(done.dump)
    assert listed["complete"] is True
    assert listed["failure"] is None
    assert [each["iteration"] for each in listed["iterations"]] == [0, 2, 3]
    for each in listed["iterations"]:
        files = list(done.step(each["iteration"]).glob("*.npy"))
        assert each["complete"] is True
        assert each["files"] == len(files)
        assert each["bytes"] == sum(file.stat().st_size for file in files)
        assert each["rows"] == len(rows(done.step(each["iteration"]) / "statistic.csv"))


def test_every_file_loads_without_pickle_as_its_name_says(dumped) -> None:
    for name in ("sync", "async", "type", "module class"):
        files = npy_files(dumped(name).dump)
        assert files
        for file in files:
            assert str(load(file).dtype) == name_of(file)[8]


def test_task_ids_count_calls_and_are_the_same_for_all_files_of_one(dumped) -> None:
    for number in (0, 2, 3):
        calls: dict[int, set[tuple[str, str]]] = {}
        for file in dumped("sync").step(number).glob("[!P]*.npy"):
            op_type, name, task, stream, *_ = name_of(file)
            assert stream == "0"
            calls.setdefault(int(task), set()).add((op_type, name))
        first = min(calls)  # in step 0 the setup's come before
        assert sorted(calls) == list(range(first, first + len(calls)))
        assert (first > 0) == (number == 0)
        assert all(len(names) == 1 for names in calls.values())


def test_nothing_temporary_is_left(dumped) -> None:
    for name in ("sync", "async"):
        left = {f.suffix for f in (dumped(name).dump / "rank_0").rglob("*") if f.is_file()}
        assert left == {".npy", ".csv", ".json", ".ir", ".pb"}


def test_where_the_config_and_the_path_come_from(tmp_path: Path) -> None:
    """The flag, then OPSCOPE_DUMP_CONFIG, then MINDSPORE_DUMP_CONFIG; no path: the variable's."""
    (tmp_path / "train.py").write_text(SCRIPT)
    common = {"path": None, "iteration": "0", "dump_mode": 1, "kernels": ["relu"]}
    files = {
        name: str(write_config(tmp_path, f"{name}.json", net_name=name, **common))
        for name in ("flag", "ours", "theirs")
    }
    variables = {"OPSCOPE_DUMP_CONFIG": files["ours"], "MINDSPORE_DUMP_CONFIG": files["theirs"]}
    where = {"MS_DIAGNOSTIC_DATA_PATH": str(tmp_path / "data")}
    rank = tmp_path / "data" / "debug_dump" / "rank_0"

    def nets(*flag: str, **environ: str) -> list[str]:
        done = opscope("run", *flag, "train.py", cwd=tmp_path, **environ, **where)
        assert done.returncode == 0, done.stderr
        return sorted(each.name for each in rank.iterdir() if each.name in files)

    assert nets("--dump", files["flag"], **variables) == ["flag"]
    assert nets(**variables) == ["ours"]
    del variables["OPSCOPE_DUMP_CONFIG"]
    assert nets(**variables) == ["theirs"]
    previous = [each.parent.name for each in (rank.parent / ".previous").glob("*/rank_0/*/0")]
    assert sorted(previous) == ["flag", "ours"], "earlier runs into the path are kept"
    assert all(load(file).size for file in (rank.parent / ".previous").rglob("*.npy"))
    kept = list((rank.parent / ".previous").rglob("*.npy"))
    assert len(kept) == 2 * 5, "relu and its backward, by type and by module class"
