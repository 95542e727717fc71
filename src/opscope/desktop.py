"""Finds out where the person sits: at a desktop with a browser, or at the far end of SSH."""

from __future__ import annotations

import getpass
import os
import socket
import threading
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

from opscope.messages import say
from opscope.rundir.layout import run_key
from opscope.waiting import finish


def over_ssh() -> bool:
    """Tell whether this terminal is reached over SSH."""
    return bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))


def has_desktop() -> bool:
    """Tell whether a browser window could be seen here."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def page_link(server: str, run: Path, token: str) -> str:
    """The address of a run's page on a server (host:port)."""
    return f"http://{server}/run/{run_key(run)}?token={token}"


def announce(link: str, browser: bool = True) -> None:
    """Say where a page is, and open it if there is a browser to be seen."""
    finish()
    say(f"page: {link}")
    hint = ssh_hint(link)
    if hint:
        say(hint)
    if browser:
        open_browser(link)


def open_browser(link: str) -> bool:
    """Open the page where there is a desktop; returns whether it was tried."""
    if over_ssh() or not has_desktop():
        return False
    threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
    return True


def ssh_hint(link: str) -> str:
    """The command that brings the page to the person's own machine; nothing if it is this one."""
    if not over_ssh():
        return ""
    port = urlsplit(link).port
    return f"on your machine: ssh -L {port}:127.0.0.1:{port} {getpass.getuser()}@{_name()}"


def _name() -> str:
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return connection[2] if len(connection) == 4 else socket.gethostname()
