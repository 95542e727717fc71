"""`python tests/peers`: run the peer suite, or one case of it by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_TUNED = "glibc.malloc.tcache_count=0"
if os.environ.get("GLIBC_TUNABLES") != _TUNED:  # so that all new memory is filled when asked for
    os.environ["GLIBC_TUNABLES"] = _TUNED
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
