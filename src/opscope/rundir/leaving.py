"""The code that a process leaves with, put into the `end.json` it has left already.

Python tells its handlers of the end nothing about it: `sys.exit(1)` looks to them like the last
line of a script. The C library does, when Python is gone; so what is to be written then is made
ready here, and native code writes it. Without native code such a run reads as finished.
"""

from __future__ import annotations

import os
from pathlib import Path

from opscope.rundir.ending import FAILED, FINISHED, Ending
from opscope.rundir.jsonlines import encode, read_object
from opscope.rundir.layout import END_FILE
from opscope.stats.native_cpu import load

_CODE = "the code that is not known yet"


def await_exit_code(rank: Path, step: int | None) -> None:
    """Have a rank that has finished read as failed should this process leave with a code."""
    path = rank / END_FILE
    end, library = read_object(path), load()
    if end is None or end.get("state") != FINISHED or library is None:
        return
    failed = Ending(FAILED, SystemExit.__name__, _CODE, step)
    before, _, after = encode({**end, **failed.to_json()}, indent=1).partition(_CODE.encode())
    draft = path.with_name(f".{path.name}.code")
    files = (os.fsencode(each.absolute()) for each in (path, draft))
    library.opscope_on_leaving(*files, before, after)
