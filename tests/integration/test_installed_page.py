"""A wheel and an archive of the sources hold the built page; who installs them needs no Node.js."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from helpers.program import clean_environment
from live.conftest import free_port

REPOSITORY = Path(__file__).parents[2]
TOKEN = "a-token-of-the-tests-0123456789"
pytestmark = pytest.mark.long


def python(*words: str | Path, program: Path | str = sys.executable, **env: str) -> str:
    done = subprocess.run(
        [program, *words],
        cwd=REPOSITORY,
        env=clean_environment(**env),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An archive of the sources made here, and a wheel made of it where there is no Node.js."""
    folder = tmp_path_factory.mktemp("built")
    python("setup.py", "-q", "sdist", "-d", folder)
    (source,) = folder.glob("*.tar.gz")
    bare = folder / "bin"
    bare.mkdir()
    tools = ("sh", "gcc", "g++", "cc", "c++", "as", "ld", "ar")
    for name in tools:
        for place in os.environ["PATH"].split(os.pathsep):
            if (Path(place) / name).exists() and not (bare / name).exists():
                (bare / name).symlink_to(Path(place) / name)
    words = ("-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    python(*words, PATH=str(bare))
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def test_both_hold_the_page(built: tuple[Path, Path]) -> None:
    source, wheel = built
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert "src/opscope/server/page/index.html" in names
    assert not any("node_modules" in name for name in names)
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    assert "opscope/server/page/index.html" in inside
    assert any(re.fullmatch(r"opscope/server/page/assets/.+\.js", name) for name in inside)
    assert any(re.fullmatch(r"opscope/server/page/assets/.+\.css", name) for name in inside)


def test_a_fresh_environment_serves_it_without_node(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    _, wheel = built
    python("-m", "venv", tmp_path / "venv")
    own = tmp_path / "venv" / "bin"
    python("-m", "pip", "install", "-q", f"{wheel}[page]", program=own / "python")
    (tmp_path / "runs").mkdir()
    ports = ("--port", str(free_port()), "--debugger-port", str(free_port()))
    server = subprocess.Popen(
        [own / "opscope", "serve", *ports],
        cwd=tmp_path / "runs",
        env=clean_environment(OPSCOPE_TOKEN=TOKEN, PATH=str(own)),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        address = next(found.group() for line in lines if (found := re.search(r"http://\S+", line)))
        opener = build_opener(HTTPCookieProcessor())
        text = opener.open(address, timeout=20).read().decode()
        (script,) = re.findall(r'src="(/assets/[^"]+\.js)"', text)
        root = re.match(r"http://[^/]+", address)
        assert root is not None
        assert len(opener.open(root.group() + script, timeout=20).read()) > 50_000
    finally:
        server.kill()
        server.wait()
