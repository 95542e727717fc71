"""Guards the server: a token for everything, the right Host and Origin, and strict headers."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

AsgiScope = dict[str, Any]
App = Callable[[AsgiScope, Any, Any], Awaitable[None]]
COOKIE = "opscope"
MOST_BODY = 1 << 20
"""Bytes that a question may have."""
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = (
    (b"content-security-policy",
     b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
     b"data: blob:; connect-src 'self'; font-src 'self'; worker-src 'self' blob:; "
     b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip


class Guard:
    """An ASGI layer that lets nobody through who has not the token."""

    def __init__(self, app: App, token: str, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset({*_LOCAL, *(host.lower() for host in hosts)})

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            if self._refusal(scope, headers):
                await receive()
                await send({"type": "websocket.close", "code": 4401})
                return
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._app(scope, receive, send)
        elif refusal[0] == 401 and self._is_entrance(scope):
            await self._let_in(scope, send)
        else:
            await _answer(send, *refusal)

    def _refusal(self, scope: AsgiScope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return why this request is not answered."""
        host = headers.get(b"host", b"").decode("latin1").lower()
        if not self._goes_by(_without_port(host), scope):
            return 421, "this server does not go by that name"
        origin = headers.get(b"origin", b"").decode("latin1").lower()
        if origin and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "requests from other pages are not answered"
        size = headers.get(b"content-length", b"0")
        if not size.isdigit() or int(size) > MOST_BODY or b"transfer-encoding" in headers:
            return 413, f"a request may have {MOST_BODY} bytes, and must say how many"
        if not self._knows_token(headers):
            return 401, "the token is missing or wrong; open the address that opscope printed"
        return None

    def _knows_token(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"").decode("latin1")
        if given.lower().startswith("bearer "):
            return self._is_token(given[7:].strip())
        return any(map(self._is_token, _cookies(headers.get(b"cookie", b"").decode("latin1"))))

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _is_entrance(self, scope: AsgiScope) -> bool:
        """Tell whether somebody opens the page with the token in its address."""
        query = dict(parse_qsl(scope["query_string"].decode("latin1")))
        is_page = scope["method"] == "GET" and not scope["path"].startswith("/api/")
        return is_page and self._is_token(query.get("token", ""))

    def _goes_by(self, host: str, scope: AsgiScope) -> bool:
        """Tell whether that is a name of this server, or the very address that was connected to."""
        here = str((scope.get("server") or ("",))[0])
        return host in self._hosts or host.strip("[]") == here

    async def _let_in(self, scope: AsgiScope, send: Any) -> None:
        """Trade the token for a cookie, and take it out of the address."""
        query = [
            pair
            for pair in parse_qsl(scope["query_string"].decode("latin1"), keep_blank_values=True)
            if pair[0] != "token"
        ]
        path = "/" + scope["path"].lstrip("/")
        place = path + (f"?{urlencode(query)}" if query else "")
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/{secure}"
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _cookies(text: str) -> Iterator[str]:
    """Give what may be our cookie; others on this machine, on any port, have some of any form."""
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            yield value


def names_of(host: str) -> tuple[str, ...]:
    """List the names of a server that listens there; its own only if others can reach it."""
    if host in ("localhost", "::1") or host.startswith("127."):
        return (host,)
    return (host, socket.gethostname(), socket.getfqdn())


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _with_headers(send: Any) -> Any:
    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return sending


async def _answer(send: Any, status: int, text: str) -> None:
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
