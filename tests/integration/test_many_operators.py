"""Steps of very many operators: training goes on, and what is added per operator does not grow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.program import clean_environment

STACK_KIB = 512
"""Less than usual, so that fewer operators fill it."""
OPERATORS = 6_000
SCRIPT = f"""
import torch

weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=1e-3)
for step in range(2):
    value = weight
    for _ in range({OPERATORS}):
        value = value * 1.00001
    optimizer.zero_grad()
    value.sum().backward()
    optimizer.step()
    print(step, weight.item(), flush=True)
"""


def with_small_stack(*command: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a small stack."""
    return subprocess.run(
        ["sh", "-c", f'ulimit -s {STACK_KIB}; exec "$@"', "sh", sys.executable, *command],
        cwd=cwd,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("native", ["1", "0"])
def test_a_long_chain_of_operators_is_let_go_of_as_without_us(tmp_path: Path, native: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    plain = with_small_stack("script.py", cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    command = ("-m", "opscope", "run", "--watch", "none", "script.py")
    watched = with_small_stack(*command, cwd=tmp_path, OPSCOPE_NATIVE=native)
    assert (watched.returncode, watched.stdout) == (0, plain.stdout), watched.stderr
