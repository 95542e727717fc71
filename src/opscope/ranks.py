"""The rank of this process, and how the processes of one run recognise each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

RUN_ID_VARIABLE = "OPSCOPE_RUN_ID"
"""Set for child processes, so that they join the run of their parent."""

_LAUNCHER = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")


def current_rank() -> int:
    """torch.distributed's rank, else RANK, else RANK_ID, else 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    known = environment_rank(os.environ)
    return 0 if known is None else known


def world_size() -> int:
    """torch.distributed's number of ranks, else WORLD_SIZE, else 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    known = os.environ.get("WORLD_SIZE", "")
    return int(known) if known.isdigit() and int(known) else 1


def environment_rank(environ: Mapping[str, str]) -> int | None:
    """The rank a launcher has put into the environment, if one did."""
    for name in ("RANK", "RANK_ID"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


def run_id(environ: Mapping[str, str]) -> str:
    """The same text in every process of one run: inherited, the launcher's, or a new one."""
    if environ.get(RUN_ID_VARIABLE):
        return environ[RUN_ID_VARIABLE]
    if "TORCHELASTIC_RUN_ID" in environ:
        facts = "|".join(environ.get(name, "") for name in _LAUNCHER)
        import hashlib  # late: it takes a twentieth of `import opscope`

        return hashlib.sha1(facts.encode()).hexdigest()[:8]
    return os.urandom(4).hex()


def launched(environ: Mapping[str, str]) -> bool:
    """Tell whether several processes of this run start at once, each for itself."""
    return "TORCHELASTIC_RUN_ID" in environ
