"""Asking a server from the command line."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from opscope.access_token import own_token
from opscope.errors import OpscopeError
from opscope.live.helper import helper_address
from opscope.live.tls import trust
from opscope.read.find import find_run

SERVER_VARIABLE = "OPSCOPE_SERVER"
_PATIENCE_S = 180.0
_SECURE = "https://"


def server_for(given: str | None, run: str) -> str:
    """The server to ask: as given, the one beside a run, or where `opscope serve` is."""
    return given or os.environ.get(SERVER_VARIABLE, "") or _beside(run) or "127.0.0.1:8080"


def _beside(run: str) -> str:
    try:
        return helper_address(find_run(run))
    except OpscopeError:
        return ""


class ServerClient:
    """One server; use it in a `with`."""

    def __init__(self, server: str) -> None:
        secure = server.startswith(_SECURE)
        self._base = server.rstrip("/") if secure else _plain(server)
        self._headers = {"Authorization": f"Bearer {own_token()}"}
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if secure:
            handlers.append(urllib.request.HTTPSHandler(context=trust()))
        self._opener = urllib.request.build_opener(*handlers)

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._opener.close()

    def find_run(self, text: str) -> str:
        """The id of the run that a text means; connected trainings come first."""
        runs = self.get("/runs")
        live = [run for run in runs if run["live"]]
        for among in (live, runs):
            if text == "last" and among:
                return str(among[0]["id"])
            exact = [run["id"] for run in among if text in (run["id"], run["name"])]
            found = exact or [run["id"] for run in among if run["id"].startswith(text)]
            if len(found) == 1:
                return str(found[0])
            if len(found) > 1:
                names = ", ".join(found[:5])
                raise OpscopeError(f"{text} is the start of {len(found)} runs: {names}")
        raise OpscopeError(f"the server at {self._base} knows no run {text}")

    def get(self, path: str, **query: Any) -> Any:
        """Ask."""
        return self._ask(path, None, query)

    def post(self, path: str, body: dict[str, Any], **query: Any) -> Any:
        """Order."""
        return self._ask(path, json.dumps(body).encode(), query)

    def fetch(self, path: str, body: dict[str, Any], **query: Any) -> bytes:
        """Order, and take what comes as it is."""
        return self._answer(path, json.dumps(body).encode(), query)

    def lines(self, path: str, **query: Any) -> Any:
        """The lines of a stream, as they come."""
        return self._opener.open(self._request(path, None, query), timeout=_PATIENCE_S)

    def _request(
        self, path: str, body: bytes | None, query: dict[str, Any]
    ) -> urllib.request.Request:
        words = f"?{urllib.parse.urlencode(query)}" if query else ""
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        return urllib.request.Request(f"{self._base}/api/v1{path}{words}", body, headers)

    def _ask(self, path: str, body: bytes | None, query: dict[str, Any]) -> Any:
        return json.loads(self._answer(path, body, query))

    def _answer(self, path: str, body: bytes | None, query: dict[str, Any]) -> bytes:
        try:
            with self._opener.open(self._request(path, body, query), timeout=_PATIENCE_S) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise OpscopeError(_words(error)) from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise OpscopeError(
                f"no server answers at {self._base} ({reason}); start one with: opscope serve"
            ) from None


def _plain(server: str) -> str:
    return f"http://{server.removeprefix('http://').rstrip('/')}"


def _words(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the server says {error.code}: {text[:200]}"
