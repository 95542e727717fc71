"""Starts workers over a range of seeds, and goes on after one that died."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers.program import clean_environment

_WORKER = Path(__file__).with_name("worker.py")

Failure = dict[str, Any]


def campaign(kind: str, recorded: Path, first: int, last: int, few: int = 0) -> list[Failure]:
    """Everything that went wrong with the damages of these seeds."""
    failures: list[Failure] = []
    while first < last:
        words = [sys.executable, _WORKER, kind, recorded, str(first), str(last), str(few)]
        done = subprocess.run(
            words, env=clean_environment(MALLOC_ARENA_MAX="2"), capture_output=True, text=True
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        failures += [line for line in lines if "problem" in line]
        if done.returncode == 0:
            break
        begun = lines[-1] if lines else {"seed": last, "damage": "?"}
        problem = f"the process ended with {done.returncode}:\n{done.stderr[-2000:]}"
        failures.append({**begun, "question": "?", "problem": problem})
        first = max(int(begun["seed"]), first) + 1
    return failures


def told(failures: list[Failure]) -> str:
    """Failures in words, those with the same end of the traceback together."""
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(_key(str(failure["problem"])), []).append(failure)
    parts = []
    for group in sorted(groups.values(), key=len, reverse=True):
        seeds = sorted({each["seed"] for each in group})
        first = group[0]
        parts.append(
            f"{len(group)} times, seeds {str(seeds)[1:200]}: {first['damage']}\n"
            f"  {first['question']}\n{first['problem']}"
        )
    return "\n".join(parts)


def _key(problem: str) -> str:
    lines = problem.strip().splitlines()
    places = [line for line in lines if line.startswith("  File")]
    return (places[-1] if places else "") + lines[-1].partition(":")[0]
