"""The fault scripts of the tests on a GPU: `python benchmarks/faults_on_gpu.py [--strict]`.

Every script runs as it is, but with `torch.set_default_device("cuda")`; what does not run there
without opscope is left out and named. Prints how many origins are right.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "tests" / "faults" / "nonfinite").glob("*.py"))
ORIGIN = re.compile(r"^origin: (.*):(\d+)$", re.MULTILINE)
OTHER_WORLDS = ("cpu",)
"""A script that names its device itself is not about this one."""
PREFIX = "import torch; torch.set_default_device('cuda'); import runpy, sys; "
RUN = PREFIX + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def run(words: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of its own."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def check(script: Path, flags: list[str]) -> str:
    """What opscope says of one script."""
    lines = script.read_text().splitlines()
    wanted = next(n for n, line in enumerate(lines, 1) if line.endswith("# origin"))
    with tempfile.TemporaryDirectory() as folder:
        plain = run(["-c", RUN, str(script)], folder)
        if plain.returncode and "raises" not in script.name:
            return f"left out: {(plain.stderr.strip().splitlines() or ['?'])[-1][:90]}"
        starter = Path(folder) / "start.py"
        starter.write_text(PREFIX + f"runpy.run_path({str(script)!r}, run_name='__main__')\n")
        done = run(["-m", "opscope", "run", *flags, "--run-dir", "run", "start.py"], folder)
    found = ORIGIN.findall(done.stderr)
    if len(found) == 1 and found[0][0].endswith(script.name) and int(found[0][1]) == wanted:
        return "right"
    return f"WRONG: {found}, not {wanted}; {done.stderr.strip().splitlines()[-3:]}"


def main() -> None:
    """Run all, several at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--at-once", type=int, default=8)
    args = parser.parse_args()
    flags = ["--strict"] if args.strict else []
    scripts = [s for s in SCRIPTS if not set(OTHER_WORLDS) & set(s.read_text().split('"'))]
    scripts = [s for s in scripts if "init_process_group" not in s.read_text()]
    with ThreadPoolExecutor(args.at_once) as pool:
        results = list(pool.map(lambda script: check(script, flags), scripts))
    for script, result in zip(scripts, results, strict=True):
        if result != "right":
            print(f"{script.name}: {result}", flush=True)
    tried = [r for r in results if not r.startswith("left out")]
    print(f"{tried.count('right')} of {len(tried)} right, {len(results) - len(tried)} left out")


if __name__ == "__main__":
    main()
