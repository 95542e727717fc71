"""Faulty trainings: the origin is the right operator on the right line; silent errors are named.

The scripts say themselves what is expected of them: tests/faults/README.md.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.examples import one_in
from helpers.forked import forked_opscope, launched
from helpers.program import python

FAULTS = Path(__file__).parents[1] / "faults"
NONFINITE = sorted((FAULTS / "nonfinite").glob("*.py"))
SILENT = sorted((FAULTS / "silent").glob("*.py"))
ORIGIN = re.compile(r"^(?:opscope: )?origin: (.*):(\d+)$", re.MULTILINE)
STOPPED = 3
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@dataclass
class Expected:
    """What a script's docstring says of it."""

    words: str
    line: int | None
    distributed: bool

    @property
    def facts(self) -> dict[str, str]:
        return dict(word.split("=") for word in self.words.split())


def expected_of(script: Path) -> Expected:
    text = script.read_text()
    words = re.search(r"^expect: (.*)$", text, re.MULTILINE)
    assert words, f"{script} says nothing of what is expected"
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# origin")]
    assert len(lines) == (script.parent.name == "nonfinite")
    return Expected(words[1], lines[0] if lines else None, "init_process_group" in text)


def run(script: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script under opscope; distributed ones as torchrun starts them."""
    words = ("run", "--no-page", "--run-dir", folder / "run", script, *arguments)
    if expected_of(script).distributed:
        return launched(*words, cwd=folder)
    return forked_opscope(*words, cwd=folder)


def hits_of(folder: Path, ranks: str = "rank_*") -> list[dict[str, Any]]:
    """The hits of these ranks."""
    files = sorted((folder / "run").glob(f"{ranks}/hits.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def by_name(script: Path) -> str:
    return script.stem


@pytest.mark.parametrize("script", one_in(3, NONFINITE), ids=by_name)
def test_the_origin_is_the_right_operator_and_line(script: Path, tmp_path: Path) -> None:
    expected = expected_of(script)
    done = run(script, tmp_path)
    # Of several ranks the exit code is the launcher's.
    stopped = int(expected.facts.get("exit", 1 if expected.distributed else STOPPED))
    assert done.returncode == stopped, done.stderr
    assert "internal error" not in done.stderr
    origins = [(Path(file).name, int(line)) for file, line in ORIGIN.findall(done.stderr)]
    assert origins == [(script.name, expected.line)], done.stderr
    check_verdict(script, tmp_path)


def check_verdict(script: Path, folder: Path) -> None:
    """What the verdict of the guilty rank says, beside the line."""
    facts = expected_of(script).facts
    step, rank = int(facts["step"]), int(facts.get("rank", 0))
    hits = [hit for hit in hits_of(folder, f"rank_{rank}") if hit.get("verdict")]
    assert hits
    for hit in hits:
        verdict = hit["verdict"]
        assert (verdict["op_type"], verdict["step"], verdict["rank"]) == (facts["op"], step, rank)
        assert (verdict["entered"] or {}).get("kind") == facts.get("from")


@pytest.mark.parametrize("script", SILENT, ids=by_name)
def test_a_silent_error_is_named(script: Path, tmp_path: Path) -> None:
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    found = {hit["condition"] for hit in hits_of(tmp_path)}
    assert found & set(expected_of(script).words.split("|")), (found, done.stderr)
    assert not ORIGIN.search(done.stderr)


@pytest.mark.parametrize("script", one_in(3, SILENT), ids=by_name)
def test_without_the_error_there_is_no_hit(script: Path, tmp_path: Path) -> None:
    done = run(script, tmp_path, "--fixed")
    assert done.returncode == 0, done.stderr
    assert hits_of(tmp_path) == []
    assert not re.search(r"\bhits?\b", done.stderr), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("script", NONFINITE, ids=by_name)
def test_what_is_expected_is_true(script: Path, tmp_path: Path) -> None:
    """A slow checker that shares nothing with opscope agrees with every docstring."""
    expected = expected_of(script)
    checker = FAULTS / "checker.py"
    launcher = LAUNCHER if expected.distributed else ()
    done = python(*launcher, checker, script, cwd=tmp_path)
    facts = expected.facts
    rank = f"rank {facts['rank']}: " if "rank" in facts else ""
    entered = f" from={facts['from']}" if "from" in facts else ""
    origin = f"op={facts['op']} step={facts['step']}{entered} at {script}:{expected.line}"
    assert f"{rank}origin: {origin}\n" in done.stdout, done.stdout + done.stderr


def test_there_are_enough_of_them() -> None:
    assert len(NONFINITE) >= 30
    assert len(SILENT) >= 8
