"""Training on a GPU: recorded values, names and attribution, and weights that do not change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers.program import opscope
from helpers.recorder import Recorder, recording
from opscope.events import Want

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def train(steps: int = 3) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    losses = []
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.randn(32, 8, device="cuda")).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize("wanted", [0, 15, Want.OUTPUT_STATS | Want.OUTSIDE_STATS])
def test_training_is_bit_identical(wanted: int) -> None:
    plain, losses = train()
    with recording(Recorder(Want(wanted))):
        watched, seen_losses = train()
    assert seen_losses == losses
    for one, other in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, other)


def test_every_backward_operator_belongs_to_a_forward_one() -> None:
    with recording() as seen:
        _, losses = train()
    backward = [c for c in seen.calls if c.node.phase == "backward" and c.step == 1]
    lost = [
        c.node.name for c in backward if c.node.forward is None and "ones_like" not in c.node.op
    ]
    assert lost == []
    assert [step.losses[0].value for step in seen.steps if step.complete] == losses
    scopes = {c.node.scope for c in backward}
    assert "Gradients/Default/network-Sequential/0-Linear" in scopes


def test_fused_updates_carry_parameter_names() -> None:
    with recording() as seen:
        model, _ = train(steps=1)
    update = seen.one("_fused_adamw_")
    names = [output.parameter for output in update.node.outputs[:4]]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for slot, parameter in enumerate(model.parameters()):
        assert torch.equal(update.outputs[slot], parameter)


def test_stream_of_the_operator_is_recorded() -> None:
    stream = torch.cuda.Stream()
    with recording() as seen, torch.cuda.stream(stream):
        torch.ones(3, device="cuda").exp()
    torch.cuda.synchronize()
    assert seen.one("exp").stream == stream.stream_id != 0


def test_dump_of_a_gpu_training(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\ntorch.manual_seed(0)\nm = torch.nn.Linear(4, 2).cuda()\n"
        "o = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "x = torch.ones(3, 4, device='cuda')\nm(x).sum().backward()\n"
        "torch.save(m.weight.detach().cpu(), 'w.pt')\no.step()\n"
    )
    common = {"path": str(tmp_path / "dump"), "iteration": "0", "saved_data": "full"}
    (tmp_path / "d.json").write_text(json.dumps({"common_dump_settings": common}))
    done = opscope("run", "--dump", "d.json", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = list((tmp_path / "dump/rank_0/Net/0/0").glob("Parameter.weight.*.npy"))
    weight = torch.load(tmp_path / "w.pt")
    assert np.array_equal(np.load(found[0]), weight.numpy())


def _train_with_writes() -> None:
    """Small and large tensors, views, and memory that is written to right after it was read."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(inplace=True), nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(4):
        x = torch.full((8192, 64), 0.5 + step, device="cuda")  # 2 MiB; its output has 8
        x.mul_(2).add_(1)
        y = model(x.t().contiguous().t())
        y.view(-1)[::3].mul_(0.5)
        scratch = torch.zeros(100, device="cuda")
        for number in range(20):
            scratch.add_(number)
        loss = (y * y).mean() + scratch.sum() * 0
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["params"][0].data.clamp_(-1, 1)


def _train_with_copies() -> None:
    """Rows that are taken over from a copy's original, gaps, and many large outputs at once."""
    torch.manual_seed(1)
    layers = nn.ModuleList(nn.Linear(512, 768) for _ in range(10)).cuda()  # 1.5 MiB each
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01, fused=True)
    for step in range(3):
        half = torch.linspace(-1, 1 + step, 64 * 512, device="cuda").view(64, 512).bfloat16()
        half.mul_(2)
        wide = half.float()
        copy = wide.clone()
        copy[:, ::2].add_(1)
        x = copy.clone().double().float() + wide.half()
        wide[3:9, 1:200].fill_(-7)
        parts = torch.cat([layer(x) for layer in layers]).view(-1, 3, 4, 64)
        query, key, value = parts.unbind(1)
        mixed = query * key[:, :1] + value.transpose(1, 2).contiguous().transpose(1, 2)
        loss = mixed.square().mean() + wide.clone().mean() + wide[:, 7].expand(5, -1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "another stream"])
@pytest.mark.parametrize("training", [_train_with_writes, _train_with_copies])
def test_rows_are_those_of_the_values(training: Callable[[], None], streams: bool) -> None:
    def run() -> None:
        with torch.cuda.stream(torch.cuda.Stream()) if streams else contextlib.nullcontext():
            training()
        torch.cuda.synchronize()

    for _ in range(3):  # Python moves the place of a call once it knows the function well
        run()
    with recording(Recorder(Want.OUTPUT_VALUES | Want.INPUT_VALUES)) as values:
        run()
    with recording(Recorder(Want.OUTPUT_STATS | Want.INPUT_STATS)) as rows:
        run()
        hook = rows.capture._watch.hook
        assert hook is None or hook.counts[0] > 200
    expected = {}
    for call in values.calls:
        for io, tensors in (("input", call.inputs), ("output", call.outputs)):
            for slot, tensor in tensors.items():
                expected[call.step, (call.node.graph, call.node.name), io, slot] = tensor
    checked = others = 0
    for value in rows.rows:
        node = value.call.node
        where = value.call.step, (node.graph, node.name), str(value.io), value.slot
        if "uniform_" in node.name and where[2] == "input":
            continue  # memory that nothing was written to
        if where not in expected:
            # Autograd copies a gradient or not, as others hold it; `.data` is an operator to some;
            # and Python may move the place of a call once more.
            others += 1
            continue
        wide = expected[where].double().cpu().numpy()
        assert value.row.count == wide.size, where
        if wide.size:
            assert (value.row.min, value.row.max) == (wide.min(), wide.max()), where
            assert value.row.mean_abs == pytest.approx(np.abs(wide).mean(), rel=2e-6), where
            assert value.row.zero == np.count_nonzero(wide == 0), where
        checked += 1
    assert checked > 0.9 * len(expected)
    assert others < 0.1 * checked


def test_the_thread_that_pins_batches_is_left_alone() -> None:
    """Else training would take the way of several threads, which is much dearer."""
    data = torch.utils.data.TensorDataset(torch.randn(24, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(Recorder(Want.OUTPUT_STATS)) as seen:
        for (batch,) in loader:
            assert batch.is_pinned()
            optimizer.zero_grad()
            model(batch.cuda(non_blocking=True)).sum().backward()
            optimizer.step()
            assert not seen.capture._program.threads.many
    assert not any("pin_memory" in node.op_type for node in seen.nodes)
