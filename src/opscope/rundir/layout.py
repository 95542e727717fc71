"""The places of things in a run directory; the names are part of the format."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime
from pathlib import Path

from opscope.regular import entries, is_directory

FORMAT_VERSION = 2

RUNS = "opscope-runs"
RUN_FILE = "run.json"
SOURCES = "sources"

RANK_FILE = "rank.json"
END_FILE = "end.json"
INCOMPLETE_FILE = "incomplete.json"
LOCK = "lock"
SERVER_FILE = ".server.json"
"""The server that copies this rank's files, while there is one."""
NODES = "nodes.jsonl"
EDGES = "edges.jsonl"
STACKS = "stacks.jsonl"
SHAPES = "shapes.jsonl"
ORDERS = "orders.jsonl"
LINKS = "links.jsonl"
STEPS = "steps.jsonl"
STATS = "stats"
EXTRA_STATS = "extra_stats"
FACTS = "facts.jsonl"
HITS = "hits.jsonl"
NOTES = "notes.jsonl"
HIT_STATES = "hits"

_RANK = re.compile(r"rank_([0-9]{1,9})")


def run_name(script: str, started: datetime, run_id: str = "") -> str:
    """The directory name of a run: script, time, and an id that ranks share or a random one."""
    stem = Path(script).name.removesuffix(".py").removesuffix(".ipynb") or "run"
    return f"{_plain(stem)}-{started:%Y%m%d-%H%M%S}-{_plain(run_id) or secrets.token_hex(3)}"


def rank_directory(run: Path, rank: int) -> Path:
    """The directory of one rank."""
    return run / f"rank_{rank}"


def rank_directories(run: Path) -> dict[int, Path]:
    """The directories of all ranks there are, by rank."""
    if not is_directory(run):
        return {}
    found = ((_RANK.fullmatch(path.name), path) for path in entries(run))
    return dict(sorted((int(m[1]), path) for m, path in found if m and is_directory(path)))


def copied_source(run: Path, file: str) -> Path:
    """Return where the copy of a source file is, from its name in a stack."""
    digest = hashlib.sha256(file.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return run / SOURCES / f"{digest}-{_plain(Path(file).name)[-100:]}"


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)


def run_key(path: Path) -> str:
    """Return what a recording is called in addresses: its name, and a digest of where it is."""
    place = path.resolve()
    digest = hashlib.sha256(str(place.parent).encode("utf-8", "surrogateescape")).hexdigest()[:6]
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in place.name)[-120:]
    return f"{name}.{digest}"
