"""What the dump tests on real trainings share: one small model, and reading a dump's files."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import opscope
from opscope.messages import forget_said
from opscope.settings.dump_keys import DOTTED, E2E

Files = dict[tuple[str, str, int], np.ndarray]
Step = dict[str, Any]

NET = "Default/network-Model"
PARAMETERS = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")

SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))

def train(begin=lambda *args: None, end=lambda *args: None):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(4, 6)
        y = torch.randint(0, 3, (4,))
        begin(model, x)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        end(model)

if __name__ == "__main__":
    train()
    print("trained")
"""


def write_config(folder: Path, name: str = "dump.json", enable: bool = True, **given: Any) -> Path:
    """A dump config in `folder` that writes to `folder/dump` unless told otherwise.

    Options go to the section they belong to.
    """
    e2e = {key: value for key, value in given.items() if DOTTED.get(key, "").startswith(E2E)}
    common = {"path": str(folder / "dump"), "iteration": "all"}
    common |= {key: value for key, value in given.items() if key not in e2e}
    common = {key: value for key, value in common.items() if value is not None}
    file = folder / name
    content = {"common_dump_settings": common, "e2e_dump_settings": {"enable": enable} | e2e}
    file.write_text(json.dumps(content))
    return file


@contextlib.contextmanager
def dumping(folder: Path, **given: Any) -> Iterator[Path]:
    """Dump what a block does in this process; gives the directory of rank 0."""
    forget_said()
    folder.mkdir(exist_ok=True)
    with opscope.start(dump=write_config(folder, **given)):
        yield folder / "dump" / "rank_0"


def name_of(file: Path) -> list[str]:
    """op type, op name, task, stream, timestamp, input or output, slot, format, dtype."""
    parts = file.name.removesuffix(".npy").split(".")
    assert len(parts) == 9, file.name
    return parts


def npy_files(folder: Path) -> list[Path]:
    walked = os.walk(folder)  # unlike rglob, it does not mind a folder that is removed meanwhile
    files = [Path(place, name) for place, _, names in walked for name in names]
    return sorted(f for f in files if f.suffix == ".npy" and ".previous" not in f.parts)


def load(file: Path) -> np.ndarray:
    return np.load(file, allow_pickle=False)


def read_step(folder: Path) -> Files:
    """The arrays of one iteration by operator name, io and slot."""
    found: Files = {}
    for file in sorted(folder.glob("*.npy")):
        op_type, name, _, _, _, io, slot, _, _ = name_of(file)
        key = f"Parameter.{name}" if op_type == "Parameter" else name
        assert (key, io, int(slot)) not in found, file.name
        found[key, io, int(slot)] = load(file)
    return found


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def manifest(dump: Path) -> dict[str, Any]:
    return json.loads((dump / "rank_0" / ".dump_metadata" / "manifest.json").read_text())


def plain_run() -> list[Step]:
    """The same training without opscope: the values, weights and gradients of each step."""
    names: dict[str, Any] = {"__name__": "plain"}
    exec(SCRIPT, names)
    steps: list[Step] = []

    def weights(model: nn.Module) -> dict[str, np.ndarray]:
        return {k: p.detach().numpy().copy() for k, p in model.named_parameters()}

    def begin(model: nn.Module, x: torch.Tensor) -> None:
        steps.append({"x": x.numpy().copy(), "before": weights(model)})
        if len(steps) == 1:
            for layer in ("fc1", "act", "fc2"):
                getattr(model, layer).register_forward_hook(
                    lambda _m, _i, out, layer=layer: steps[-1].update(
                        {layer: out.detach().numpy().copy()}
                    )
                )

    def end(model: nn.Module) -> None:
        grads = {k: p.grad.numpy().copy() for k, p in model.named_parameters()}
        steps[-1].update(after=weights(model), grads=grads)

    names["train"](begin, end)
    return steps


def expected(step: Step) -> Files:
    """What the files of a step must hold, by hand from the plain run."""
    before, after, grads = step["before"], step["after"], step["grads"]
    files: Files = {}

    def add(name: str, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        key = name.replace("/", "_")
        files.update({(key, "input", slot): array for slot, array in enumerate(inputs)})
        files.update({(key, "output", slot): array for slot, array in enumerate(outputs)})

    for layer, x in (("fc1", step["x"]), ("fc2", step["act"])):
        weight, bias = before[f"{layer}.weight"], before[f"{layer}.bias"]
        add(f"{NET}/{layer}-Linear/t-op0", [weight], [weight.T])
        add(f"{NET}/{layer}-Linear/addmm-op0", [bias, x, weight.T], [step[layer]])
        gradients = f"Gradients/{NET}/{layer}-Linear"
        for number, kind in enumerate(("bias", "weight")):
            grad = grads[f"{layer}.{kind}"]
            add(f"{gradients}/AccumulateGrad-op{number}", [grad], [grad])
    add(f"{NET}/act-ReLU/relu-op0", [step["fc1"]], [step["act"]])
    for number, name in enumerate(PARAMETERS):
        inputs = [before[name], grads[name]]
        add(f"Default/optimizer-SGD/add_-op{number}", inputs, [after[name]])
        files[f"Parameter.{name.replace('.', '_')}", "output", 0] = before[name]
    return files


def assert_holds(found: Files, wanted: Files) -> None:
    """Every wanted array is there, bit by bit, with its shape and dtype."""
    assert wanted.keys() <= found.keys(), wanted.keys() - found.keys()
    for key, array in wanted.items():
        assert found[key].dtype == array.dtype, key
        np.testing.assert_array_equal(found[key], array, err_msg=str(key))
