"""The helper: the server beside one run, which leaves when nobody needs it any more.

It also exports what the recorder of a rank holds that was killed before it could.

python -m opscope.server.helper SOCKET RUN PID [DESCRIPTOR OF PID]
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from opscope.access_token import own_token
from opscope.alive import is_alive
from opscope.live.helper import forget_helper
from opscope.record.exit_status import ExitStatuses
from opscope.record.post_mortem import export_all
from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.server.serve import address, serve

LINGER_S = 5.0
"""The time it stays after the last rank has gone and the last page was closed."""
_LOOK_S = 0.5


def main(words: list[str]) -> None:
    """Serve on an inherited socket until training is over and nobody looks."""
    descriptor, run, parent = int(words[0]), Path(words[1]), int(words[2])
    statuses = ExitStatuses(run, {parent: int(words[3])} if words[3:] else {})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is meant for the training
    sock = socket.socket(fileno=descriptor)
    token = own_token()
    library = Library([run, run.parent])
    page = address(sock, "127.0.0.1")
    hub = Hub(library, lambda number: f"{page}run/{number}?token={token}", run.parent)
    threading.Thread(target=_leave_in_time, args=(hub, run, parent, statuses), daemon=True).start()
    serve(library, token, [sock], (), lambda: None, hub)


def _leave_in_time(hub: Hub, run: Path, parent: int, statuses: ExitStatuses) -> None:
    needed = time.monotonic()
    while time.monotonic() - needed < LINGER_S:
        time.sleep(_LOOK_S)
        if is_alive(parent) or hub.is_needed:
            needed = time.monotonic()
        statuses.note()
        export_all(run)
    forget_helper(run)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
