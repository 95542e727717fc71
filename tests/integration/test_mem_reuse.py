"""Memory reuse in compiled training: the code that Inductor writes, with and without."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opscope
from helpers.forked import forked_python as python
from opscope import mem_reuse
from opscope.settings.context import reset_context


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    mem_reuse.set_reuse(True)
    reset_context()


def train(forward: Any, net: nn.Module, steps: int = 2) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = forward(torch.full((8, 16), step / 10))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Net(nn.Module):
    """Has buffers of one size that are needed one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.softmax(x @ self.weight, -1)
            x = (x @ self.weight).relu() + 0.1
        return x.sum()


def compiled_code() -> tuple[str, list[float]]:
    from torch._inductor.utils import run_and_get_code

    net = Net()
    torch._dynamo.reset()
    losses, codes = run_and_get_code(lambda: train(torch.compile(net, fullgraph=True), net))
    assert len(codes) == 2  # forward and backward
    return "\n".join(codes), losses


@pytest.mark.long
def test_every_buffer_has_its_own_memory_when_it_is_off() -> None:
    usual, losses = compiled_code()
    assert "# reuse" in usual
    assert "in_out_ptr" in usual
    opscope.set_context(enable_mem_reuse=False)
    own, same = compiled_code()
    assert "# reuse" not in own
    assert "in_out_ptr" not in own
    assert same == losses
    buffers = [len(set(re.findall(r"(buf\d+) = empty_strided", code))) for code in (usual, own)]
    assert buffers[1] > buffers[0]


def test_switching_back_gives_what_was_there_before(tmp_path: Path) -> None:
    config = torch._inductor.config
    names = mem_reuse.OPTIONS["torch._inductor.config"]
    before = {name: getattr(config, name) for name in names}
    file = tmp_path / "mindspore_config.json"
    file.write_text(json.dumps({"sys": {"mem_reuse": False}}))
    opscope.set_context(env_config_path=file)
    assert not mem_reuse.is_allowed()
    assert not config.allow_buffer_reuse
    assert not torch._functorch.config.donated_buffer
    file.write_text(json.dumps({"sys": {"mem_reuse": True}}))
    opscope.set_context(env_config_path=file)
    assert mem_reuse.is_allowed()
    assert {name: getattr(config, name) for name in names} == before


def test_what_the_script_has_set_itself_is_kept() -> None:
    config = torch._inductor.config
    with config.patch(inplace_buffers=False, disabled_passes="mine"):
        opscope.set_context(enable_mem_reuse=False)
        assert config.disabled_passes == "mine,reinplace_inplaceable_ops"
        opscope.set_context(enable_mem_reuse=True)
        assert (config.inplace_buffers, config.disabled_passes) == (False, "mine")


@pytest.mark.long
def test_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(
        "import sys, opscope\n"
        "opscope.set_context(enable_mem_reuse=False)\n"
        "assert 'torch' not in sys.modules\n"
        "import torch._inductor.config, torch._functorch.config\n"
        "print(torch._inductor.config.allow_buffer_reuse, torch._functorch.config.donated_buffer)\n"
    )
    assert python("early.py", cwd=tmp_path).stdout == "False False\n"


def test_eager_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    net = Net()
    usual = train(net, net)
    opscope.set_context(enable_mem_reuse=False)
    net = Net()
    assert train(net, net) == usual
    net = Net()
    config = {"path": str(tmp_path / "dump"), "net_name": "Net", "iteration": "0"}
    (tmp_path / "dump.json").write_text(json.dumps({"common_dump_settings": config}))
    with opscope.start(dump=tmp_path / "dump.json"):
        assert train(net, net) == usual
