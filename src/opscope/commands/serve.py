"""Wait for trainings, and show and control them.

Trainings connect with `opscope run --server HOST:PORT …`, or with ENABLE_MS_DEBUGGER=1 and, where
need be, MS_DEBUGGER_HOST and MS_DEBUGGER_PORT.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.access_token import own_token
from opscope.commands.view import require_server
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.rundir.layout import RUNS
from opscope.waiting import finish

if TYPE_CHECKING:
    from opscope.server.serve import Certificate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope serve`."""
    parser.add_argument("--port", type=int, default=8080, help="of the page (default: 8080)")
    parser.add_argument(
        "--debugger-port", type=int, default=50051, help="of trainings (default: 50051)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--certificate", metavar="FILE", help="serve with TLS: the certificate")
    parser.add_argument("--key", metavar="FILE", help="serve with TLS: the key of the certificate")
    parser.add_argument(
        "--enable-debugger", default="True", metavar="BOOL", help="True or 1: trainings can connect"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    require_server()
    from opscope.server.hub import Hub
    from opscope.server.library import Library
    from opscope.server.security import names_of
    from opscope.server.serve import address, listening_socket, serve

    debugs = _truth(args.enable_debugger)
    for name, port in (("--port", args.port), ("--debugger-port", args.debugger_port)):
        if not 1 <= port <= 65535:
            raise OpscopeError(f"{name} {port}: must be from 1 to 65535")
    if debugs and args.port == args.debugger_port:
        raise OpscopeError("--port and --debugger-port must differ")
    certificate = _certificate(args.certificate, args.key)
    token = own_token()
    sockets = [listening_socket(args.host, args.port, "--port")]
    if debugs:
        sockets.append(listening_socket(args.host, args.debugger_port, "--debugger-port"))
    page = address(sockets[0], args.host, "https" if certificate else "http")
    library = Library([Path(RUNS)])

    def link(run: str) -> str:
        return f"{page}run/{run}?token={token}"

    def ready() -> None:
        finish()
        say(f"page: {page}?token={token}")
        if debugs:
            scheme = "wss://" if certificate else ""
            say(f"trainings connect to {scheme}{args.host}:{args.debugger_port}")

    hub = Hub(library, link) if debugs else None
    serve(library, token, sockets, names_of(args.host), ready, hub, certificate)
    return 0


def _certificate(chain: str | None, key: str | None) -> Certificate | None:
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise OpscopeError("TLS needs both --certificate and --key")
    from opscope.server.serve import Certificate

    found = Certificate(chain, key)
    found.check()
    return found


def _truth(text: str) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    if text.strip().lower() not in words:
        raise OpscopeError(f"--enable-debugger {text}: must be True, 1, False or 0")
    return words[text.strip().lower()]
