"""The connection of a training to a server: a thread that answers, and connects again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import Any

from opscope.errors import OpscopeError
from opscope.live.run_files import witness
from opscope.live.tls import CERTIFICATE_VARIABLE, trust
from opscope.live.wire import (
    MOST_BYTES,
    PATH,
    REFUSED,
    VERSION,
    WRONG_VERSION,
    Message,
    decode,
    encode,
)
from opscope.messages import say, say_once

FIRST_S = 10.0
"""The time a training tries before it says that there is no server."""
_LONGEST_S = 5.0
_SECURE = "wss://"
_COPY_S = 30.0
"""The time a training that has ended waits for a server that still copies."""
_SILENCE_S = 20.0
"""The time a connection may be silent before it counts as broken."""


class Link(threading.Thread):
    """Connects, introduces this training, and answers questions one after the other."""

    def __init__(
        self,
        address: Callable[[], str],
        token: str,
        hello: Message,
        directory: Path,
        answer: Callable[[str, dict[str, Any]], Any],
        on_presence: Callable[[bool, int], None],
    ) -> None:
        super().__init__(name="opscope-link", daemon=True)
        self._address = address
        self._token = token
        self._hello = {"kind": "hello", "version": VERSION, **hello}
        self._directory = directory
        self._answer = answer
        self._on_presence = on_presence
        self._ended = threading.Event()
        self.connected = threading.Event()
        """Set while a server is connected."""
        self.gave_up = False
        """True if the server has refused this training for good."""
        self.copies = False
        """True if the server is on another disk, and copies what is recorded."""
        self.caught_up = threading.Event()
        """Set when such a server has all there is."""
        self.page = ""
        """The address where people look, as the server has said."""
        self._socket: Any = None
        self._state: Message | None = None
        self._send_lock = threading.Lock()

    def tell(self, status: dict[str, Any]) -> None:
        """Tell of a new status, now or when connected again; only the latest counts."""
        self._state = {"kind": "status", "status": status}
        self._send(self._state)

    def end(self, patience_s: float = 2.0) -> None:
        """Let a server that copies have the rest, say good-bye, and close."""
        self.hand_over_rest()
        self._send({"kind": "bye"})
        self.close(patience_s)

    def hand_over_rest(self) -> None:
        """Let a server that copies have what it has not got yet: nothing more will come."""
        self._ended.set()
        if self.copies and self.connected.is_set():
            self._send({"kind": "written"})
            self._wait_for_copy()

    def close(self, patience_s: float = 2.0) -> None:
        """Close the connection, without a word."""
        self._ended.set()
        socket = self._socket
        if socket is not None:
            socket.close()
        self.join(patience_s)

    def _wait_for_copy(self) -> None:
        give_up = time.monotonic() + _COPY_S
        while self.connected.is_set() and not self.caught_up.wait(0.1):
            if time.monotonic() > give_up:
                say("the server is too slow to copy all that was recorded; it is in the run itself")
                return

    def run(self) -> None:
        from websockets.exceptions import WebSocketException

        began, pause, said = time.monotonic(), 0.1, False
        while not self._ended.is_set() and not self.gave_up:
            try:
                self._serve_once()
                pause = 0.1
            except SSLCertVerificationError as error:
                place = f"the certificate of {self._address()} is not trusted"
                say_once(f"{place}: {error.verify_message}; name it in {CERTIFICATE_VARIABLE}")
            except (OpscopeError, ValueError) as error:  # an address that is none raises the latter
                say_once(f"{self._address()} cannot be connected to: {error}")
            except (OSError, WebSocketException, TimeoutError):
                pass
            if self._ended.wait(pause) or self.gave_up:
                break
            pause = min(2 * pause, _LONGEST_S)
            if not said and not self.page and time.monotonic() - began > FIRST_S:
                said = True
                place = self._address() or "its place"
                say(f"no server answers at {place}: training goes on, and connects later")

    def _serve_once(self) -> None:
        """Serve one connection, from greeting to end."""
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        address = self._address()
        if not address:
            return
        secure = address.startswith(_SECURE)
        with connect(
            f"{address}{PATH}" if secure else f"ws://{address}{PATH}",
            ssl=trust() if secure else None,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            max_size=MOST_BYTES,
            open_timeout=5,
            ping_interval=_SILENCE_S / 2,
            ping_timeout=_SILENCE_S,
            proxy=None,
        ) as socket:
            self._socket = socket
            try:
                welcome = self._greet(socket)
                self.page = str(welcome.get("page", "")) or self.page
                self.copies = bool(welcome.get("copies"))
                self._on_presence(True, int(welcome.get("watchers", 0)))
                self.connected.set()
                if self._state is not None:
                    self._send(self._state)
                for text in socket:
                    self._handle(decode(text))
            except ConnectionClosed as closed:
                self._note_refusal(closed)
            finally:
                self.connected.clear()
                self._socket = None
                self._on_presence(False, 0)

    def _greet(self, socket: Any) -> Message:
        with witness(self._directory) as name:
            socket.send(encode({**self._hello, "witness": name}))
            return decode(socket.recv(timeout=10))

    def _note_refusal(self, closed: Any) -> None:
        code = closed.rcvd.code if closed.rcvd is not None else 0
        if code in (REFUSED, WRONG_VERSION):
            self.gave_up = True
            why = "it has another version" if code == WRONG_VERSION else "the token is wrong"
            say_once(f"the server at {self._address()} refuses this training: {why}")

    def _handle(self, message: Message) -> None:
        if message["kind"] != "question":
            return
        number, verb, args = message.get("id"), str(message.get("verb")), message.get("args")
        reply: Message = {"kind": "answer", "id": number}
        try:
            result = self._answer(verb, args if isinstance(args, dict) else {})
            reply["data" if isinstance(result, bytes) else "result"] = result
        except OpscopeError as error:
            reply["error"] = str(error)
        except Exception as error:  # noqa: BLE001 - whoever asked is told; training goes on
            reply["error"] = f"{type(error).__name__}: {error}"
        self._send(reply)

    def _send(self, message: Message) -> None:
        from websockets.exceptions import WebSocketException

        socket = self._socket
        if socket is None:
            return
        with self._send_lock:
            try:
                socket.send(encode(message))
            except (OSError, WebSocketException):
                pass
