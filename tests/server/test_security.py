"""Who may ask: every way in without the token, from another page or under another name fails."""

from __future__ import annotations

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
from opscope.server.library import Library
from opscope.server.security import names_of
from opscope.server.serve import in_background, listening_socket
from server.conftest import TOKEN, Recorded

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


def test_answers_forbid_what_a_page_need_not(address: str) -> None:
    headers = httpx.get(f"{address}/api/v1/runs", headers=RIGHT).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy and "script-src 'self';" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def raw(address: str, path: str, *headers: str) -> bytes:
    """The whole answer to a request that no proper client would send."""
    place = urlsplit(address)
    lines = (f"GET {path} HTTP/1.1", f"Host: {place.netloc}", f"Authorization: Bearer {TOKEN}")
    with socket.create_connection((place.hostname, place.port), timeout=10) as sock:
        sock.sendall("\r\n".join((*lines, *headers, "Connection: close", "", "")).encode())
        return b"".join(iter(lambda: sock.recv(65536), b""))


def test_large_questions_are_refused(address: str) -> None:
    assert b" 413 " in raw(address, "/api/v1/runs", "Content-Length: 99999999999")


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
