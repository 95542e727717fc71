"""What is noted of a program's surroundings has no secrets in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opscope.record.surroundings import (
    cgroup_events_file,
    git_revision,
    masked,
    oom_kills,
    surroundings,
)

SECRETS = {
    "WANDB_API_KEY": "abc",
    "HF_TOKEN": "abc",
    "AWS_SECRET_ACCESS_KEY": "abc",
    "MYSQL_PWD": "abc",
    "DB_PASSWORD": "abc",
    "OPSCOPE_TOKEN": "abc",
    "GOOGLE_APPLICATION_CREDENTIALS": "abc",
    "SSH_AUTH_SOCK": "abc",
}


def test_secrets_are_masked() -> None:
    found = masked({**SECRETS, "PATH": "/bin", "URL": "https://user:abc@host/x"})
    assert "abc" not in "".join(found.values())
    assert found["PATH"] == "/bin" and found["URL"] == "https://***@host/x"


def test_secrets_on_the_command_line_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--api-key=abc", "--lr=0.1"])
    assert surroundings(["train.py"])["argv"] == ["train.py", "--api-key=***", "--lr=0.1"]


def test_the_revision_is_what_git_says(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=topic")
        command = ["git", *identity, *words]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert git_revision(tmp_path) == ""
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    (tmp_path / "below").mkdir()
    assert git_revision(tmp_path / "below") == f"{git('rev-parse', 'HEAD')} (topic)"
    git("pack-refs", "--all")
    assert git_revision(tmp_path) == f"{git('rev-parse', 'HEAD')} (topic)"
    git("worktree", "add", "-q", "-b", "other", "tree")
    assert git_revision(tmp_path / "tree") == f"{git('rev-parse', 'HEAD')} (other)"
    git("checkout", "-q", "--detach")
    assert git_revision(tmp_path) == git("rev-parse", "HEAD")


def test_the_control_group_of_either_version_is_found(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("9:name=systemd:/\n4:memory:/job/7\n0::/job/7\n")
    assert cgroup_events_file(groups, tmp_path) == cgroup_events_file(tmp_path / "none") == ""
    for name in ("job/7/memory.events", "memory/memory.oom_control"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    found = cgroup_events_file(groups, tmp_path)
    assert found == str(tmp_path / "memory" / "memory.oom_control") and oom_kills(found) == 2
    groups.write_text("0::/job/7\n")
    assert cgroup_events_file(groups, tmp_path) == str(tmp_path / "job" / "7" / "memory.events")


def test_kills_of_a_control_group(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert oom_kills(str(tmp_path / "memory.events")) == 3
    assert oom_kills("") == oom_kills(str(tmp_path / "none")) == 0
