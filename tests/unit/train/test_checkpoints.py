from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from opscope.errors import OpscopeError
from opscope.messages import forget_said
from opscope.train import load_checkpoint, load_param_into_net, save_checkpoint

KINDS = {
    "single": torch.randn(3, 4),
    "half": torch.randn(3).half(),
    "narrow": torch.randn(3).bfloat16(),
    "eight": torch.randn(4).to(torch.float8_e4m3fn),
    "long": torch.arange(5),
    "flags": torch.tensor([True, False]),
    "waves": torch.randn(2, 2, dtype=torch.complex64),
    "turned": torch.randn(3, 4).T,
    "none": torch.empty(0, 2),
    "one": torch.tensor(2.5),
}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def trained(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        net(torch.full((2, 3), step + 1.0) * torch.tensor([[1.0], [2.0]])).sum().backward()
        optimizer.step()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def test_every_kind_comes_back_bit_by_bit(tmp_path: Path) -> None:
    file = save_checkpoint(KINDS, tmp_path / "kinds.ckpt", {"epoch": 3, "note": "x"})
    found = load_checkpoint(file)
    assert (found.pop("epoch"), found.pop("note")) == (3, "x")
    assert found.keys() == KINDS.keys()
    for name, value in KINDS.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (found[name], value)]
        assert torch.equal(*bits), name


def test_other_tools_read_it(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    net = network()
    found = load_file(save_checkpoint(net, str(tmp_path / "net")))
    assert (tmp_path / "net.ckpt").exists()
    assert same(found, net.state_dict())


def test_into_a_network_and_an_optimizer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.03, betas=(0.8, 0.9))
    trained(net, optimizer)
    file = save_checkpoint(net, tmp_path / "a.ckpt", optimizer=optimizer)
    other = network()
    fresh = torch.optim.AdamW(other.parameters())
    found = load_checkpoint(file, other, strict_load=True, optimizer=fresh)
    assert same(other.state_dict(), net.state_dict())
    assert not any(name.startswith("optimizer") for name in found)
    assert fresh.param_groups[0]["betas"] == (0.8, 0.9)
    trained(net, optimizer)
    trained(other, fresh)
    assert same(other.state_dict(), net.state_dict())


def test_a_list_of_names_and_data(tmp_path: Path) -> None:
    file = save_checkpoint([{"name": "a", "data": torch.ones(2)}], tmp_path / "a")
    assert torch.equal(load_checkpoint(file)["a"], torch.ones(2))
    with pytest.raises(TypeError, match="save_obj must be a module"):
        save_checkpoint(3, tmp_path / "b")


def test_what_fits_is_loaded_and_the_rest_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    net = network()
    state = {n: v for n, v in net.state_dict().items() if not n.startswith("2.")}
    file = save_checkpoint(state | {"extra": torch.ones(1)}, tmp_path / "a")
    missing, unexpected = load_param_into_net(network(), load_checkpoint(file))
    assert (missing, unexpected) == (["2.weight", "2.bias"], ["extra"])
    said = capsys.readouterr().err
    assert "Sequential keeps what it had: 2.weight, 2.bias" in said
    assert "Sequential has no: extra" in said
    with pytest.raises(RuntimeError, match="Missing key"):
        load_checkpoint(file, network(), strict_load=True)
    assert load_checkpoint(file, filter_prefix=["0.", "1."]).keys() == {"extra"}


def test_compiled_and_wrapped_networks_have_plain_names(tmp_path: Path) -> None:
    net = network()
    wrapped = torch.compile(nn.DataParallel(net))
    found = load_checkpoint(save_checkpoint(wrapped, tmp_path / "a"))
    assert same(found, net.state_dict())


def test_nothing_is_left_of_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(OpscopeError, match=r"rows \(float32 sparse_coo\) cannot be saved"):
        save_checkpoint({"rows": torch.eye(2).to_sparse()}, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    with pytest.raises(OpscopeError, match=r"a\.ckpt cannot be read"):
        load_checkpoint(file)
    file.write_bytes(b"not a checkpoint at all")
    with pytest.raises(OpscopeError, match="cannot be read"):
        load_checkpoint(file)
    save_checkpoint({"a": torch.ones(2)}, file)
    with pytest.raises(OpscopeError, match="holds no state of an optimizer"):
        load_checkpoint(file, optimizer=torch.optim.SGD(network().parameters(), 0.1))
