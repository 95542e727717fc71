"""Serving: a socket on a free or given port, and uvicorn on it."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import uvicorn
from anyio import to_thread
from fastapi import FastAPI

from opscope.errors import OpscopeError
from opscope.live.wire import MOST_BYTES
from opscope.server.app import create_app
from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.server.security import Guard

_LOCAL = "127.0.0.1"
_PATIENCE_S = 20.0
_THREADS = 8
"""Questions that are answered at once; each thread keeps the memory that it needed most of."""


def listening_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket that listens; port 0 is a free one. An error says why it cannot."""
    if not 0 <= port <= 65535:
        raise OpscopeError(f"port {port}: must be between 1 and 65535, or 0 for a free one")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Named as TCP, or asyncio leaves Nagle's delay on: 40 ms for every answer.
        server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(128)
    except OSError as error:
        busy = f"{host}:{port} is in use already: choose another {option}"
        words = (
            busy if error.errno == errno.EADDRINUSE else f"{host}:{port}: {error.strerror or error}"
        )
        raise OpscopeError(words) from None
    return server


def serve(
    library: Library,
    token: str,
    sockets: list[socket.socket],
    hosts: tuple[str, ...] = (),
    on_ready: Callable[[], None] = lambda: None,
    hub: Hub | None = None,
    certificate: Certificate | None = None,
    recordings: Sequence[Path] = (),
) -> None:
    """Answer until interrupted; with a hub, trainings can connect on the same sockets."""
    app = create_app(library, hub, recordings)
    _server(app, token, hosts, on_ready, certificate).run(sockets=sockets)


def in_background(
    library: Library,
    token: str,
    sock: socket.socket,
    hub: Hub | None = None,
    recordings: Sequence[Path] = (),
) -> Callable[[], None]:
    """Answer in a thread; returns what ends it."""
    ready = threading.Event()
    server = _server(create_app(library, hub, recordings), token, (), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    if not ready.wait(_PATIENCE_S):
        raise OpscopeError("the server did not start")

    def end() -> None:
        server.should_exit = True
        thread.join(_PATIENCE_S)

    return end


def address(sock: socket.socket, host: str, scheme: str = "http") -> str:
    """Return how a browser on this machine reaches it."""
    port = sock.getsockname()[1]
    shown = _LOCAL if host in ("0.0.0.0", "::", "") else host
    return f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{port}/"


class Certificate(NamedTuple):
    """The files that TLS needs."""

    chain: str
    """The certificate, with those above it."""
    key: str

    def check(self) -> None:
        """Raise an error that says why they cannot be used, if so."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            both = f"--certificate {self.chain} and --key {self.key}"
            raise OpscopeError(f"{both} cannot be used: {error.strerror or error}") from None


class _Server(uvicorn.Server):
    """Tells when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        await super().startup(sockets)
        self._on_ready()


def _server(
    app: FastAPI,
    token: str,
    hosts: tuple[str, ...],
    on_ready: Callable[[], None],
    certificate: Certificate | None = None,
) -> _Server:
    config = uvicorn.Config(
        Guard(app, token, hosts),
        ssl_certfile=certificate.chain if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="websockets-sansio",
        ws_max_size=MOST_BYTES,
    )
    return _Server(config, on_ready)
