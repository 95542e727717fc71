"""Who may ask: every way in without the token, from another page or under another name fails."""

from __future__ import annotations

import contextlib
import shutil
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.access_token import own_token
from opscope.errors import OpscopeError
from opscope.rundir.layout import run_key
from opscope.server.library import Library
from opscope.server.security import names_of
from opscope.server.serve import in_background, listening_socket
from server.conftest import SCRIPT, TOKEN, Recorded

RIGHT = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"cookie": "opscope=wrong"}, 401),
        ({"cookie": f"opscope={TOKEN}"}, 200),
        (RIGHT, 200),
        ({"cookie": f'a/b=1; json={{"x": "y,z"}}; opscope={TOKEN}'}, 200),
        ({"cookie": f"opscope=stale; opscope={TOKEN}"}, 200),
        ({"cookie": f"notopscope={TOKEN}"}, 401),
        ({"cookie": f"x=opscope={TOKEN}"}, 401),
        (RIGHT | {"x-forwarded-host": "evil.example", "x-forwarded-for": "6.6.6.6"}, 200),
        ({"host": "evil.example", "x-forwarded-host": "127.0.0.1"}, 421),
        ({"x-forwarded-for": "127.0.0.1"}, 401),
        (RIGHT | {"host": "evil.example"}, 421),
        (RIGHT | {"host": "127.0.0.1.evil.example:80"}, 421),
        (RIGHT | {"origin": "http://evil.example"}, 403),
        (RIGHT | {"origin": "null"}, 403),
        (RIGHT | {"transfer-encoding": "chunked"}, 413),
    ],
)
def test_only_the_token_from_here_opens(address: str, headers: dict[str, str], status: int) -> None:
    assert httpx.get(f"{address}/api/v1/runs", headers=headers).status_code == status


def test_the_address_that_was_connected_to_is_a_name(recorded: Recorded) -> None:
    """A page elsewhere cannot make a browser say so: it would need this very address as its own."""
    sock = listening_socket("127.0.0.2", 0)
    end = in_background(Library([recorded.folder / "run"]), TOKEN, sock)
    port = sock.getsockname()[1]
    for host, status in (("127.0.0.2", 200), ("127.0.0.3", 421), ("evil.example", 421)):
        headers = RIGHT | {"host": f"{host}:{port}"}
        answer = httpx.get(f"http://127.0.0.2:{port}/api/v1/about", headers=headers)
        assert answer.status_code == status, host
    end()


def test_a_server_for_others_goes_by_its_own_name() -> None:
    assert names_of("127.0.0.1") == ("127.0.0.1",)
    assert socket.gethostname() in names_of("0.0.0.0")


def test_the_token_in_an_address_becomes_a_cookie(address: str) -> None:
    response = httpx.get(f"{address}/run/x?step=3&token={TOKEN}")
    assert response.status_code == 303 and response.headers["location"] == "/run/x?step=3"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert httpx.get(f"{address}/?token=wrong").status_code == 401
    assert httpx.get(f"{address}/api/v1/runs?token={TOKEN}").status_code == 401
    assert httpx.get(f"{address}//evil.example/?token={TOKEN}").headers["location"][:2] != "//"


def test_the_token_in_an_address_opens_nothing_to_other_pages(address: str) -> None:
    for headers, status in (({"origin": "http://evil.example"}, 403), ({"host": "evil"}, 421)):
        answer = httpx.get(f"{address}/?token={TOKEN}", headers=headers)
        assert answer.status_code == status and "set-cookie" not in answer.headers


def test_answers_forbid_what_a_page_need_not(address: str) -> None:
    headers = httpx.get(f"{address}/api/v1/runs", headers=RIGHT).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy and "script-src 'self';" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def raw(address: str, path: str, *headers: str, body: str = "") -> bytes:
    """The whole answer to a request that no proper client would send."""
    place = urlsplit(address)
    lines = (f"GET {path} HTTP/1.1", f"Host: {place.netloc}", f"Authorization: Bearer {TOKEN}")
    with (
        contextlib.suppress(ConnectionError),  # it may refuse before all of it has come
        socket.create_connection((place.hostname, place.port), timeout=10) as sock,
    ):
        sock.sendall("\r\n".join((*lines, *headers, "Connection: close", "", body)).encode())
        return b"".join(iter(lambda: sock.recv(65536), b""))
    return b""


def test_large_questions_are_refused(address: str) -> None:
    assert b" 413 " in raw(address, "/api/v1/runs", "Content-Length: 99999999999")


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: evil.example",),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Content-Length: 4, 5",),
        ("Content-Length: +4",),
        ("Content-Length: 0", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding : chunked",),
        (" folded: by\r\n\tlines",),
        ("Authorization\x00: Bearer x",),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    address: str, headers: tuple[str, ...]
) -> None:
    """What follows in its body is not taken for a request of its own."""
    smuggled = "GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = raw(address, "/api/v1/runs", *headers, body=f"0\r\n\r\n{smuggled}")
    assert answer[9:12] in (b"400", b"401", b"413"), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1


def test_headers_larger_than_any_browser_sends(address: str) -> None:
    cookie = f"Cookie: opscope={'x' * 300_000}"
    assert b" 200 " not in raw(address, "/api/v1/runs", cookie).partition(b"\r\n")[0]
    assert httpx.get(f"{address}/api/v1/about", headers=RIGHT).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f..%2fapp.py",
        "/..%2fapp.py",
    ],
)
def test_no_path_leads_out_of_the_page(address: str, path: str) -> None:
    answer = raw(address, path)
    assert b"root:" not in answer and b"create_app" not in answer


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_garbage_breaks_nothing(address: str, garbage: bytes) -> None:
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=5) as sock:
        sock.sendall(garbage + b"\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    assert httpx.get(f"{address}/api/v1/about", headers=RIGHT).status_code == 200


def test_the_token_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPSCOPE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    token = own_token()
    file = tmp_path / "opscope" / "token"
    assert len(token) >= 32 and own_token() == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(OpscopeError, match="read by others"):
        own_token()
    monkeypatch.setenv("OPSCOPE_TOKEN", "short")
    with pytest.raises(OpscopeError, match="at least 16"):
        own_token()


def test_names_from_files_cannot_act(address: str, recorded: Recorded) -> None:
    """A run is found by its id among those there are: no part of a path is ever joined."""
    for name in ("..%2frun", "%2e%2e%2f%2e%2e", "run", "%00", f"{recorded.run}%2f.."):
        assert b" 404 " in raw(address, f"/api/v1/runs/{name}").partition(b"\r\n")[0], name


def test_links_in_a_run_lead_nowhere(address: str, recorded: Recorded, tmp_path: Path) -> None:
    """A run from elsewhere may hold links to files of this machine: none of them is read."""
    secret = tmp_path / "secret"
    secret.write_text("the secret of this machine")
    run = tmp_path / "run"
    shutil.copytree(recorded.folder / "run", run)
    (copied,) = [file for file in run.rglob("*.py") if file.read_text() == SCRIPT]
    copied.unlink()
    copied.symlink_to(secret)
    sock = listening_socket("127.0.0.1", 0)
    end = in_background(Library([run]), TOKEN, sock)
    linked = f"http://127.0.0.1:{sock.getsockname()[1]}"

    def source(where: str, run: str) -> str:
        path = f"{where}/api/v1/runs/{run}/ranks/0/source"
        return httpx.get(path, params={"file": str(recorded.script)}, headers=RIGHT).text

    assert "import torch" in source(address, recorded.run)
    assert "secret of" not in source(linked, run_key(run))
    end()
