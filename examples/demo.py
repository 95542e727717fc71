"""What `make demo` runs: an AlexNet that turns NaN in step 24, held there, with the page beside it.

Without a terminal nobody could look: then it prints the verdict and writes it as an HTML file.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "demo-run"
REPORT = TARGET / "report.html"
STOPPED = 3


def opscope(*words: str) -> int:
    print("$ opscope", " ".join(words), flush=True)
    return subprocess.run([sys.executable, "-m", "opscope", *words], check=False).returncode


def main() -> None:
    watched = sys.stdin.isatty() and sys.stdout.isatty()
    shutil.rmtree(TARGET, ignore_errors=True)
    script = str(HERE / "late_fault.py")
    run = str(TARGET / "run")
    if watched:
        print("Training holds at the fault. Look on the page, then press Continue or Stop there.")
        opscope("run", "--run-dir", run, "--on-hit", "pause", script)
    elif (code := opscope("run", "--run-dir", run, "--no-page", script)) != STOPPED:
        sys.exit(f"exit code {code}, not {STOPPED}")
    if opscope("hits", run, "--html", str(REPORT)):
        sys.exit("the report could not be written")
    print(f"\nThe verdict as a page of its own: {REPORT}")
    print(f"To look at the whole run: opscope view {run}")


if __name__ == "__main__":
    main()
