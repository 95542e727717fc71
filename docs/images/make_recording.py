"""Makes the picture of a recording: two ranks that are killed while one waits for the other.

pip install pillow
python docs/images/make_recording.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from make import SIZE, TOKEN, Pictures, await_server, free_port
from playwright import sync_api as playwright

from opscope.rundir.layout import run_key

TRAIN = '''"""Two ranks; the second stops training one step too early."""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(y)))


dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
network = nn.Sequential(nn.Embedding(256, 64), Block(64), Block(64), nn.Linear(64, 256))
network = nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
for step in range(41):
    ids = torch.randint(0, 256, (8, 65))
    loss = nn.functional.cross_entropy(network(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    if step == 40 and dist.get_rank() == 0:
        Path("waits").write_text(str(os.getpid()))
        dist.all_reduce(loss.detach())
while not Path("waits").exists():
    time.sleep(0.1)
time.sleep(1)
os.kill(int(Path("waits").read_text()), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
'''


def train(folder: Path) -> None:
    """Leave a recording of both ranks, each started by itself: a launcher would end the other."""
    (folder / "train.py").write_text(TRAIN)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    words = [sys.executable, "-m", "opscope", "run", "--no-stats", "train.py"]
    ranks = [
        subprocess.Popen(
            words,
            cwd=folder,
            env=os.environ
            | common
            | {"RANK": rank, "LOCAL_RANK": rank, "MS_RDR_PATH": str(folder / "nightly")},
        )
        for rank in ("0", "1")
    ]
    for each in ranks:
        each.wait(120)


def main() -> None:
    with tempfile.TemporaryDirectory() as made, playwright.sync_playwright() as started:
        folder, port = Path(made), free_port()
        train(folder)
        words = [sys.executable, "-m", "opscope", "view", "nightly", "--no-browser", "--port", port]
        server = subprocess.Popen(words, cwd=folder, env=os.environ | {"OPSCOPE_TOKEN": TOKEN})
        try:
            await_server(int(port))
            chromium = started.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"),
                args=["--no-sandbox"],
            )
            shown = chromium.new_page(viewport=SIZE, locale="en-GB")  # type: ignore[arg-type]
            key = run_key(folder / "nightly")
            shown.goto(f"http://127.0.0.1:{port}/recording/{key}?token={TOKEN}")
            at = Pictures(shown, [])
            at.see(".ranktabs button", "rank 0").click()
            at.see(".operatorpanel .opname", "allreduce")
            at.take("recording")
            chromium.close()
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
