from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from made_dump import NewDump, make_node

from opscope.dump.selection import devices
from opscope.dump.selection.devices import Devices
from opscope.events import Outside, PassingValue, Phase, Want

ONE = torch.ones(1)


def test_iterations_count_from_the_initial_one(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, iteration="11|13-14", initial_iteration=10) as dump:
        assert [step for step in range(8) if dump.sink.wants_step(step)] == [1, 3, 4]
        for step in range(6):
            dump.call(make_node(), outputs=[torch.tensor([float(step)])])
            dump.end_step()
    assert sorted(entry.name for entry in (dump.root / "Net/0").iterdir()) == ["11", "13", "14"]
    assert dump.load("*.npy", iteration=13)[0] == 3


@pytest.mark.parametrize(
    ("input_output", "sides"), [(0, ["input", "output"]), (1, ["input"]), (2, ["output"])]
)
@pytest.mark.parametrize("saved_data", ["tensor", "statistic", "full"])
def test_sides(
    new_dump: NewDump, enable: bool, input_output: int, sides: list[str], saved_data: str
) -> None:
    with new_dump(enable, input_output=input_output, saved_data=saved_data) as dump:
        dump.call(make_node(), [ONE], [ONE])
        dump.end_step()
    files = [name.split(".")[5] for name in dump.files()]
    assert files == (sides if saved_data != "statistic" else [])
    if saved_data == "tensor":
        assert not (dump.directory() / "statistic.csv").exists()
    else:
        assert [row["IO"] for row in dump.table()] == sides


@pytest.mark.parametrize(
    "include", [frozenset(), frozenset({"eval"}), frozenset({"setup", "eval"})]
)
def test_phases(new_dump: NewDump, include: frozenset[str]) -> None:
    with new_dump(options={"include": include}) as dump:
        wanted = {str(phase) for phase in Phase if dump.sink.wants(make_node(phase=phase))}
    assert wanted == {"forward", "backward", "optimizer"} | include


def test_mode_0_ignores_kernels(new_dump: NewDump) -> None:
    with new_dump(dump_mode=0, kernels=["nothing like it"]) as dump:
        assert dump.sink.wants(make_node())


KERNELS = [
    ("Default/network-Net/relu-op0", ["Default/network-Net/relu-op0"]),
    ("RELU", ["Default/network-Net/relu-op0", "Default/network-Net/relu-op1"]),
    ("linear", ["Default/network-Net/fc-Linear/addmm-op0"]),
    (
        "name-regex(.*-op0)",
        ["Default/network-Net/relu-op0", "Default/network-Net/fc-Linear/addmm-op0"],
    ),
]


@pytest.mark.parametrize(("kernel", "expected"), KERNELS)
def test_mode_1(new_dump: NewDump, enable: bool, kernel: str, expected: list[str]) -> None:
    nodes = [
        make_node("Default/network-Net/relu-op0"),
        make_node("Default/network-Net/relu-op1"),
        make_node("Default/network-Net/fc-Linear/addmm-op0", "addmm", module_class="Linear"),
    ]
    with new_dump(enable, dump_mode=1, kernels=[kernel], input_output=2) as dump:
        for node in nodes:
            dump.call(node, outputs=[ONE])
    assert {name.split(".")[1] for name in dump.files()} == {
        name.replace("/", "_") for name in expected
    }


def test_kernels_that_never_matched_are_reported(
    new_dump: NewDump, capfd: pytest.CaptureFixture[str]
) -> None:
    kernels = ["relu", "relu-op0", "name-regex(relu)", "rellu", "Default/zzz"]
    with new_dump(dump_mode=1, kernels=kernels) as dump:
        dump.call(make_node(), outputs=[ONE])
        assert "matched no" not in capfd.readouterr().err
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 4
    assert '"relu-op0"' in said[0] and "Default/network-Net/relu-op0" in said[0]
    assert "name-regex(.*relu.*)" in said[1]
    assert 'did you mean "relu"?' in said[2]
    assert said[3].endswith('"Default/zzz" in kernels matched no operator')


def test_a_match_in_a_phase_that_is_not_dumped_does_not_count(
    new_dump: NewDump, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_dump(dump_mode=1, kernels=["relu"]) as dump:
        dump.call(make_node(phase=Phase.EVAL, graph=1), outputs=[ONE])
        dump.call(make_node("D/add-op0", "add"), outputs=[ONE])
    assert '"relu" in kernels matched no operator' in capfd.readouterr().err


def test_iterations_that_never_came_are_reported(
    new_dump: NewDump, enable: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_dump(enable, iteration="100-120") as dump:
        dump.call(make_node(), outputs=[ONE])
        dump.end_step()
    assert 'nothing was written: iteration "100-120" never came' in capfd.readouterr().err
    assert dump.manifest()["complete"]


def device_tensor(kind: str, index: int | None) -> SimpleNamespace:
    return SimpleNamespace(device=SimpleNamespace(type=kind, index=index))


def test_devices() -> None:
    chosen = Devices([0, 2])
    assert [chosen.select(device_tensor("cuda", index)) for index in range(3)] == [
        *(True, False, True)
    ]
    assert Devices.of(None) is None


@pytest.mark.parametrize("saved_data", ["tensor", "statistic"])
def test_support_device_has_no_effect_on_the_cpu(
    new_dump: NewDump, capfd: pytest.CaptureFixture[str], saved_data: str
) -> None:
    with new_dump(support_device=[3], saved_data=saved_data, input_output=2) as dump:
        for _ in range(3):
            dump.call(make_node(), outputs=[ONE])
    assert capfd.readouterr().err.count("support_device") == 1
    assert len(dump.files() if saved_data == "tensor" else dump.table()) == 3


ROWS = Want.INPUT_STATS | Want.OUTPUT_STATS
VALUES = Want.INPUT_VALUES | Want.OUTPUT_VALUES | Want.PARAMETERS


@pytest.mark.parametrize(
    ("there", "chosen", "expected"),
    [
        (0, [0, 1, 2, 3, 4, 5, 6, 7], ROWS),
        (0, [7], ROWS),
        (8, [0, 1, 2, 3, 4, 5, 6, 7], ROWS),
        (1, [0], ROWS),
        (2, [0], ROWS | VALUES),
        (1, [1], ROWS | VALUES),
        (None, [0], ROWS | VALUES),
    ],
)
def test_values_are_looked_at_for_their_device_only_if_one_is_left_out(
    new_dump: NewDump,
    monkeypatch: pytest.MonkeyPatch,
    there: int | None,
    chosen: list[int],
    expected: Want,
) -> None:
    monkeypatch.setattr(devices, "_count_devices", lambda: there)
    with new_dump(support_device=chosen, saved_data="statistic") as dump:
        assert dump.sink.wants(make_node()) == expected


def test_rows_of_other_devices_are_left_out(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_count_devices", lambda: 2)
    monkeypatch.setattr(Devices, "select", lambda self, tensor: bool(tensor[0] < 2))
    with new_dump(support_device=[0], saved_data="statistic") as dump:
        for number in range(4):
            dump.call(make_node(f"D/a-op{number}", "a"), [torch.tensor([float(number)])])
    assert [row["Max Value"] for row in dump.table()] == ["0.0", "1.0"]


def test_parameters_once_per_step_as_they_are_used(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="full", input_output=2) as dump:
        node = make_node()
        weight = torch.tensor([1.0])
        for _ in range(2):
            for _ in range(2):
                dump.parameter(node, "conv1.weight", weight)
                dump.call(node, [weight], [ONE])
            weight.add_(1)
            dump.end_step()
    prefix = "Parameter.conv1_weight.0.0.1700000000000000.output.0.DefaultFormat.float32.npy"
    for step in range(2):
        assert [name for name in dump.files(step) if name.startswith("Parameter")] == [prefix]
        assert dump.load("Parameter*", step)[0] == step + 1
        (row,) = [row for row in dump.table(step) if row["Op Type"] == "Parameter"]
        assert list(row.values())[1:8] == [
            *("conv1.weight", "0", "0", "1700000000000000", "output", "0", "4")
        ]
        assert row["Max Value"] == f"{step + 1}.0"


def test_parameter_rows_without_tensors(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, saved_data="statistic", input_output=2) as dump:
        source = Outside("parameter", "bias")
        dump.call(make_node(), [torch.tensor([2.0, 5.0])], sources=[source])
    assert [(row["Op Name"], row["Max Value"]) for row in dump.table()] == [("bias", "5.0")]
    assert not dump.files()


def test_no_parameters_when_only_inputs_are_dumped(new_dump: NewDump) -> None:
    with new_dump(input_output=1) as dump:
        node = make_node()
        dump.sink.wants(node)
        assert not dump.sink.wants(node) & Want.PARAMETERS
        call = dump.call(node, [ONE])
        dump.sink.parameter(call, Outside("parameter", "w"), ONE)
    assert [name.split(".")[0] for name in dump.files()] == ["relu"]


def test_what_was_not_wanted_is_not_written(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, dump_mode=1, kernels=["add"], saved_data="full", iteration="1") as dump:
        relu, add = make_node(), make_node("D/add-op0", "add")
        for _ in range(3):
            call = dump.call(relu)
            dump.sink.wants(relu)
            dump.sink.inputs(call, [PassingValue(0, ONE, None)])
            dump.sink.outputs(call, [PassingValue(0, ONE, None)])
            dump.sink.parameter(call, Outside("parameter", "w"), ONE)
            dump.call(add, outputs=[ONE])
            dump.end_step()
    assert [entry.name for entry in (dump.root / "Net/0").iterdir()] == ["1"]
    assert [name.split(".")[0] for name in dump.files(1)] == ["add"]
    assert len(dump.table(1)) == 1


def test_the_setup_is_kept_until_the_rank_is_known(new_dump: NewDump, enable: bool) -> None:
    dump = new_dump(enable, options={"include": frozenset({"setup"})})
    node = make_node("D/fill-op0", "fill", graph=2, phase=Phase.SETUP)
    tensor = torch.zeros(3)
    dump.call(node, [tensor])
    tensor.fill_(7)
    dump.call(node, outputs=[tensor])
    tensor.fill_(9)
    assert not dump.settings.path.exists()
    with dump:
        dump.call(make_node(), outputs=[ONE])
        dump.end_step()
    assert dump.load("*.input.0.*", graph=2).tolist() == [0, 0, 0]
    assert dump.load("*.output.0.*", graph=2).tolist() == [7, 7, 7]
    assert len(dump.files()) == 1
