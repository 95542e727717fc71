"""The cause of a process's end, decided from what its handlers noted."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.native import shared

if TYPE_CHECKING:
    from opscope.record.reading import Marker, RingReader

EXCEPTION, EXIT, KILLED, HANG, HIT, FINISHED = "exception", "exit", "killed", "hang", "hit", "end"
EXEC = "exec"
OUT_OF_MEMORY, DEVICE, FAST_EXIT, RUNNING = "out of memory", "device error", "os._exit", "running"
_RECENT_NS = 60_000_000_000
"""A signal that the script handles itself is why it ends if it ends so soon after."""
_MARKER_TEXT = 31
"""So many bytes of text a marker has."""
_MEMORY_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc")
_DEVICE_WORDS = ("CUDA error", "device-side assert", "illegal memory access", "CUDNN_STATUS")


@dataclass(frozen=True)
class Cause:
    """A word for how it ended, and a sentence."""

    kind: str
    text: str

    @property
    def is_abnormal(self) -> bool:
        """True unless training simply ended or is still running."""
        return self.kind not in (FINISHED, RUNNING)


def of_exception(kind: str, message: str, thread: str = "") -> Cause:
    """Return the cause of an end by this exception."""
    where = f" in the thread {thread}" if thread else ""
    text = f"{kind}: {message}" if message else kind
    names = kind.lower()
    if kind == KeyboardInterrupt.__name__:
        return Cause("SIGINT", f"interrupted{where} ({kind})")
    if "outofmemory" in names or kind == "MemoryError" or _has(message, _MEMORY_WORDS):
        return Cause(OUT_OF_MEMORY, f"out of memory{where}: {text}")
    if _has(message, _DEVICE_WORDS):
        return Cause(DEVICE, f"the device failed{where}: {text}")
    return Cause(EXCEPTION, f"exception{where}: {text}")


def in_marker(kind: str, message: str) -> str:
    """Write an exception in the few characters of a marker, so that its cause is told from it."""
    words = {OUT_OF_MEMORY: ": out of memory", DEVICE: ": CUDA error"}
    plain = of_exception(kind, "").kind
    found = of_exception(kind, message).kind
    word = words.get(found, "") if found != plain else ""
    return kind[: _MARKER_TEXT - len(word)] + word


def _has(message: str, words: tuple[str, ...]) -> bool:
    return any(word.lower() in message.lower() for word in words)


def of_ring(ring: RingReader, alive: bool, oom_kills: int = 0, status: int | None = None) -> Cause:
    """Decide how the process of a ring ended, or that it is still running.

    `status` is what the kernel says of its end, where that is known.
    """
    markers = ring.markers
    last = markers[-1] if markers else None
    if last is not None and (found := _noted(ring, markers, last, alive)) is not None:
        return found
    if alive:
        return Cause(RUNNING, "it is still running")
    if status is not None and (told := _of_status(status)) is not None:
        return told
    killer = "SIGKILL, or the machine stopped" if status is None else "SIGKILL"
    if oom_kills > ring.number("oom_kills"):
        return Cause(
            OUT_OF_MEMORY,
            f"killed from outside ({killer}), and the kernel has killed "
            f"{oom_kills - ring.number('oom_kills')} of its control group for want of memory since "
            "it started",
        )
    return Cause(KILLED, f"killed from outside ({killer})")


def _of_status(status: int) -> Cause | None:
    """The end of a process that could not note it; nothing for a SIGKILL, which none can."""
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        return Cause(FAST_EXIT, f"native code left with the code {code} at once, as _exit does")
    number = os.WTERMSIG(status)
    if number == signal.SIGKILL:
        return None
    return Cause(name_of(number), f"{name_of(number)}, in which no handler could run")


def _noted(ring: RingReader, markers: list[Marker], last: Marker, alive: bool) -> Cause | None:
    if last.kind == shared.MARKER_HANG:
        return _hang(ring, last, alive)
    if alive:
        return None
    ended = any(marker.kind == shared.MARKER_FINISHED for marker in markers)
    after = " after the program had ended" if ended else ""
    if last.kind == shared.MARKER_SIGNAL:
        if (raised := _raised(markers)) is not None:
            return Cause(raised.kind, f"{raised.text}, then {name_of(last.number)}")
        return Cause(name_of(last.number), f"{name_of(last.number)}{after}{_address(last)}")
    if last.kind == shared.MARKER_EXCEPTION:
        return _of_marker(last)
    if last.kind == shared.MARKER_FAST_EXIT:
        if last.text:
            return Cause(EXEC, f"it replaced itself by another program: {last.text}")
        return Cause(FAST_EXIT, f"os._exit({last.number})")
    code = last.number if last.kind == shared.MARKER_EXIT else 0
    if (handled := of_handled_signal(ring, last.time_ns, code)) is not None:
        return handled
    if code:
        return Cause(EXIT, f"it left with the code {code}")
    return Cause(FINISHED, "it ended normally")


def _raised(markers: list[Marker]) -> Cause | None:
    """The exception that training was ending with already; those of threads do not end it."""
    found = [each for each in markers if each.kind == shared.MARKER_EXCEPTION and not each.number]
    return _of_marker(found[0]) if found else None


def _of_marker(marker: Marker) -> Cause:
    kind, _, message = marker.text.partition(": ")
    return of_exception(kind or "an exception", message)


def of_handled_signal(ring: RingReader, end_ns: int, code: int = 0) -> Cause | None:
    """A signal that the script has handled itself, and then ended soon, with this code."""
    signals = [marker for marker in ring.markers if marker.kind == shared.MARKER_SIGNAL]
    if not signals or end_ns - signals[-1].time_ns > _RECENT_NS:
        return None
    name = name_of(signals[-1].number)
    ended = f"left with the code {code}" if code else "ended"
    return Cause(name, f"{name}, which the script handled and then {ended}")


def _hang(ring: RingReader, last: Marker, alive: bool) -> Cause | None:
    """It hangs, unless operators have run since."""
    if ring.number("head") != last.detail:
        return None
    then = "" if alive else ", then it was killed from outside"
    return Cause(HANG, f"it hung: no operator ran for {last.number} seconds{then}")


def _address(marker: Marker) -> str:
    return f" at the address {marker.detail:#x}" if marker.detail else ""


def name_of(number: int) -> str:
    """The name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def to_json(cause: Cause) -> dict[str, Any]:
    """As files have it."""
    return {"kind": cause.kind, "text": cause.text}
