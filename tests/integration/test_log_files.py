"""Log files of a real program."""

from __future__ import annotations

from pathlib import Path

from helpers.forked import forked_opscope as opscope

TRAIN = """
import torch
from opscope.train import LossMonitor, Model
net = torch.nn.Linear(4, 3)
data = [(torch.randn(8, 4), torch.zeros(8, dtype=torch.long))] * 3
optimizer = torch.optim.SGD(net.parameters(), 0.1)
Model(net, torch.nn.CrossEntropyLoss(), optimizer).train(1, data, callbacks=LossMonitor())
"""


def test_a_run_with_log_files_and_a_bad_variable(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = opscope(
        *("run", "train.py"),
        cwd=tmp_path,
        GLOG_v="1",
        GLOG_logtostderr="0",
        GLOG_log_dir=str(tmp_path / "logs"),
        MS_SUBMODULE_LOG_v="PARSER:2",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("MS_SUBMODULE_LOG_v") == 1
    assert done.stdout.count("loss is") == 3
    assert "[INFO]" not in done.stderr
    (file,) = (tmp_path / "logs" / "rank_0" / "logs").iterdir()
    lines = file.read_text().splitlines()
    assert file.name.startswith("opscope.log.")
    assert any("SESSION(" in line and "watching begins" in line for line in lines)
    assert any("TRAIN(" in line and "training of Linear for 1 epochs" in line for line in lines)
    assert any("next: opscope show" in line for line in lines)  # what is said is kept too
