"""The server that `opscope run` starts by itself: there at once, gone when nobody needs it."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from helpers.program import opscope
from live.conftest import TOKEN, TRAIN, Process, wait_for


def test_a_run_has_a_page_of_its_own(tmp_path: Path, started: list[Process]) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "OPSCOPE_PAGE": "1"}
    process = Process(tmp_path, "run", "train.py", "100000", "-1", **state)
    started.append(process)
    wait_for(lambda: "page: http" in process.text)
    found = re.search(r"page: http://(\S+?)/run/(\S+)\?token=", process.text)
    assert found
    server, run = found.groups()
    client = httpx.Client(
        base_url=f"http://{server}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60
    )

    def is_live() -> bool:
        answer = client.get(f"/runs/{run}")
        return answer.status_code == 200 and bool(answer.json()["live"])

    wait_for(is_live, 60)

    def ctl(*words: str) -> str:
        done = opscope("ctl", "last", *words, cwd=tmp_path, OPSCOPE_TOKEN=TOKEN, **state)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "paused" in ctl("pause")
    assert "running" in ctl("continue")
    ctl("terminate")
    assert process.wait() == 130
    servers = tmp_path / "state" / "opscope" / "servers"
    wait_for(lambda: not list(servers.iterdir()), 30)  # it has gone, and left nothing

    def refuses() -> bool:
        try:
            client.get("/about")
        except httpx.TransportError:
            return True
        return False

    wait_for(refuses, 10)


def test_no_page_starts_no_server(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "OPSCOPE_PAGE": "1"}
    done = opscope("run", "--no-page", "train.py", "2", "-1", cwd=tmp_path, **state)
    assert done.returncode == 0 and "page:" not in done.stderr
    assert not (tmp_path / "state").exists()
