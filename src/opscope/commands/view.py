"""Look at runs, dumps and recordings in a browser.

opscope view          all runs in ./opscope-runs
opscope view PATH     one run or dump: a path, a name, the start of one, or
                      "last"; or what the recorder left of a training: its
                      folder, that of a rank, or a `ring.bin`
"""

from __future__ import annotations

import argparse
from pathlib import Path

from opscope.desktop import announce
from opscope.errors import OpscopeError
from opscope.live.helper import missing_packages
from opscope.read.find import find_run, is_dump, is_run
from opscope.rundir.layout import RUNS, run_key


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope view`."""
    parser.add_argument("run", metavar="PATH", nargs="?", help="what to open (default: all)")
    parser.add_argument("--port", type=int, default=0, help="the port (default: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    require_server()
    from opscope.access_token import own_token
    from opscope.server.library import Library
    from opscope.server.serve import address, listening_socket, serve

    library, wanted = Library([Path(RUNS)]), ""
    recordings: list[Path] = []
    if args.run is not None:
        path, is_recording = _found(args.run)
        wanted = f"{'recording' if is_recording else 'run'}/{run_key(path)}"
        if is_recording:
            recordings.append(path)
        else:
            library = Library([path])
            library.read_ahead(run_key(path))
    token = own_token()
    sock = listening_socket(args.host, args.port)
    link = f"{address(sock, args.host)}{wanted}?token={token}"
    serve(
        library,
        token,
        [sock],
        (args.host,),
        lambda: announce(link, not args.no_browser),
        recordings=recordings,
    )
    return 0


def require_server() -> None:
    """Raise an error that says how to install what a server needs, if it is missing."""
    if missing := missing_packages():
        raise OpscopeError(f"the page needs {' and '.join(missing)}: pip install 'opscope[page]'")


def _found(text: str) -> tuple[Path, bool]:
    """Find what a text means, and whether it is a recording and nothing else."""
    from opscope.record.places import recordings

    path = Path(text)
    if is_dump(path):
        return path, False
    if not is_run(path) and recordings(path):
        return (path.parent if path.is_file() else path), True
    return find_run(text), False
