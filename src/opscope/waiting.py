"""A line on stderr while something takes long: what it is, how far it has come, for how long."""

from __future__ import annotations

import os
import sys
import threading
import time

_WIDTH = 24
_EVERY = 0.2
"""Seconds between two drawings."""
_begun: list[Waiting] = []
"""Those under way; the last one is drawn."""


class Waiting:
    """A line that is drawn again and again on a terminal, and is gone at the end.

    Nothing is drawn in the first moments, nor where nobody looks or no line can be drawn again.
    The work itself need not say anything: a thread draws. One within another takes its place.
    """

    def __init__(self, what: str, after: float = 0.4) -> None:
        self._what, self._after = what, after
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._began = time.monotonic()
        self._done = self._total = 0
        self._is_drawn = False

    def __enter__(self) -> Waiting:
        step_aside()
        _begun.append(self)
        if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            threading.Thread(target=self._draw_on, name="opscope-waiting", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def show(self, done: int, total: int) -> None:
        """So much is done, of so much."""
        self._done, self._total = done, total

    def expect(self, count: int) -> None:
        """So many more parts are to be done."""
        with self._lock:
            self._total += count

    def advance(self) -> None:
        """Count one more part as done."""
        with self._lock:
            self._done += 1

    def end(self) -> None:
        """Take the line away; from here on others may print."""
        self._has_ended.set()
        self.erase()
        if self in _begun:
            _begun.remove(self)

    def erase(self) -> None:
        """Take the line away for the moment."""
        with self._lock:
            if self._is_drawn:
                self._write("\r\x1b[K")
            self._is_drawn = False

    @property
    def seconds(self) -> float:
        """The seconds it has taken so far."""
        return time.monotonic() - self._began

    def _draw_on(self) -> None:
        wait = self._after
        while not self._has_ended.wait(wait):
            wait = _EVERY
            with self._lock:
                if not self._has_ended.is_set() and _begun[-1:] == [self]:
                    self._is_drawn = True
                    self._write(f"\r\x1b[K{self._what}{self._share()}, {self.seconds:.0f} s")

    def _share(self) -> str:
        if not self._total:
            return ""
        filled = min(_WIDTH, _WIDTH * self._done // self._total)
        percent = min(100, 100 * self._done // self._total)
        return f" [{'#' * filled}{'.' * (_WIDTH - filled)}] {percent} %"

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # nobody looks any more
            self._has_ended.set()


def step_aside() -> None:
    """Make room for a line of somebody else's."""
    if _begun:
        _begun[-1].erase()


def finish() -> None:
    """Tell whoever waits that it is over."""
    if _begun:
        _begun[-1].end()


def show(done: int, total: int) -> None:
    """Tell whoever waits that so much is done, of so much."""
    if _begun:
        _begun[-1].show(done, total)


def expect(count: int) -> None:
    """Tell whoever waits that so many more parts are to be done."""
    if _begun:
        _begun[-1].expect(count)


def advance() -> None:
    """Tell whoever waits that one more part is done."""
    if _begun:
        _begun[-1].advance()


def main(words: list[str]) -> int:
    """Run a command as one part of something larger: a name, then its words.

    One line tells of it if it succeeds, and all that it printed if it fails.
    """
    import subprocess

    what, *command = words
    with Waiting(what) as waiting:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if done.returncode:
        print(f"{what}: failed\n{done.stdout}", file=sys.stderr)
    else:
        print(f"{what}: {waiting.seconds:.0f} s", flush=True)
    return done.returncode
