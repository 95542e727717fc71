"""`DataLoader` workers: left alone, and what they send is named as the batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from helpers.forked import forked_opscope as opscope
from helpers.forked import forked_python as python
from opscope.read.run import open_run

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        assert not _get_current_dispatch_mode_stack()
        assert nn.Module.__call__.__name__ == "_wrapped_call_impl"
        made = torch.full((2,), float(index)).sinh().atan() + torch.rand(2)
        return {"x": made, "y": torch.tensor([float(index)])}

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    loader = DataLoader(Numbers(), 4, True, num_workers=2, multiprocessing_context=sys.argv[1])
    for batch in loader:
        optimizer.zero_grad()
        loss = (model(batch["x"]) - batch["y"]).square().mean()
        loss.backward()
        optimizer.step()
        print(batch["y"].tolist(), loss.item())
    print(model.weight.tolist(), model.bias.tolist(), torch.rand(1).item())

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def plain_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints without opscope; it does not depend on how workers are started."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(SCRIPT)
    return python("train.py", "fork", cwd=folder).stdout


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_are_not_captured_and_training_is_right(
    tmp_path: Path, context, plain_output
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    watched = opscope("run", "--run-dir", "run", "train.py", context, cwd=tmp_path)
    assert watched.returncode == 0, watched.stderr
    assert watched.stdout == plain_output
    assert len(plain_output.splitlines()) == 4
    assert "internal error" not in watched.stderr
    run = open_run(tmp_path / "run")
    assert list(run.ranks) == [0]
    rank = run.rank(0)
    assert [step.step for step in rank.steps if step.complete] == [0, 1, 2]
    assert not {"sinh", "atan"} & {node.op_type for node in rank.nodes.values()}
    (addmm,) = [node for node in rank.nodes.values() if node.op_type == "addmm"]
    assert ("batch", "input0.x") in [source[:2] for source in addmm.sources[:2]]
    (error,) = [n for n in rank.nodes.values() if n.op_type == "sub" and n.phase == "forward"]
    assert error.sources[1][:2] == ("batch", "input0.y")


def test_batches_are_named_without_workers(record) -> None:
    data = TensorDataset(torch.arange(6.0).reshape(6, 1), torch.ones(6, 1))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for x, y in DataLoader(data, batch_size=2):
            (model(x) - y).square().sum().backward()
            optimizer.step()
    assert len([step for step in seen.steps if step.complete]) == 3
    for step in range(3):
        addmm = seen.one("addmm", step)
        assert addmm.sources[1] == ("batch", "input0.0", "")
        assert torch.equal(addmm.inputs[1], torch.tensor([[2.0 * step], [2.0 * step + 1]]))
        assert seen.one("sub", step).sources[1] == ("batch", "input0.1", "")
