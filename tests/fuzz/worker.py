"""Asks damaged recordings, one after the other, in a process with a limit on time and memory.

python worker.py KIND RECORDED FIRST LAST FEW: for each seed a copy of RECORDED is damaged and asked
FEW questions (0 for all). Lines of JSON on stdout say which seed begins and what went wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.mutations import FORGED, mutate
from fuzz.questions import questions
from opscope.errors import OpscopeError
from opscope.messages import forget_said

SECONDS = 10
"""How long one question may take; a sound recording answers in a tenth of a second."""
MEMORY = 512 << 20
"""How much more than for a sound recording may be used."""
_CAPABILITIES = 0x20080522
"""Version 3 of Linux's capabilities."""
_READ_ANYTHING = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_CODES = (None, 0, 2, 3)
_RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Hang(BaseException):
    """A question took too long."""


def problem_with(ask: Callable[[], object]) -> str:
    """What goes wrong when something is asked; nothing if it is answered or refused in words."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = ask()
            out.flush()
    except OpscopeError as error:  # of the Python interface; verbs say it themselves
        code = error.exit_code
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
    printed, said = _text(out), _text(err)
    if code not in _CODES:
        return f"exit code {code}"
    if "Traceback" in said:  # a report prints the one that a script died of
        return said
    return _escape_in(printed + said)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")


def _escape_in(text: str) -> str:
    found = _RAW.search(text) or re.search(f"^{FORGED}", text, re.MULTILINE)
    if found is None:
        return ""
    return f"raw {found[0]!a} in {text[max(0, found.start() - 80) : found.end() + 40]!a}"


def examine(kind: str, recorded: Path, folder: Path, seed: int, few: int) -> None:
    """Damage a copy and ask it; says what goes wrong."""
    path = folder / "damaged"
    shutil.copytree(recorded, path)
    say(seed=seed, damage="unknown")
    damage = mutate(path, seed)
    say(seed=seed, damage=damage)
    asked = questions(kind, path)
    if few:
        asked = random.Random(seed).sample(asked, min(few, len(asked)))
    for question, ask in asked:
        forget_said()
        if problem := problem_with(ask):
            say(seed=seed, damage=damage, question=question, problem=problem)
    remove(folder)


def remove(folder: Path) -> None:
    """Remove everything in a folder, whatever may be read."""
    for path in folder.rglob("*"):
        if stat.S_ISDIR(path.lstat().st_mode):
            path.chmod(0o700)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def say(**facts: object) -> None:
    """One line for the process that started this one."""
    print(json.dumps(facts), flush=True)


def limit(kind: str, recorded: Path, folder: Path) -> None:
    """Set the limits, once all that is ever imported is in memory."""
    signal.signal(signal.SIGALRM, _hang)
    shutil.copytree(recorded, folder / "sound")
    for question, ask in questions(kind, folder / "sound"):
        if problem := problem_with(ask):
            say(seed=-1, damage="none", question=question, problem=problem)
    remove(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def obey_permissions() -> None:
    """Let root be refused what others are: without its right to read what it likes."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    rights = (ctypes.c_uint32 * 6)()
    libc.capget(header, rights)
    rights[0] &= ~_READ_ANYTHING
    libc.capset(header, rights)


def _hang(*_: object) -> None:
    raise Hang(f"no answer in {SECONDS} s")


def main() -> None:
    """See the beginning of this file."""
    kind, recorded = sys.argv[1], Path(sys.argv[2])
    first, last, few = map(int, sys.argv[3:6])
    with tempfile.TemporaryDirectory() as around:
        os.chdir(around)
        folder = Path(around) / "cases"
        folder.mkdir()
        obey_permissions()
        limit(kind, recorded, folder)
        for seed in range(first, last):
            examine(kind, recorded, folder, seed, few)


if __name__ == "__main__":
    main()
