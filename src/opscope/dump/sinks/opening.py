"""Beginning a dump: its directory, and who writes it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.dump.format import metadata
from opscope.dump.format.form import FileForm
from opscope.dump.format.manifest import Manifest
from opscope.dump.sinks.recorder import DumpRecorder
from opscope.dump.transport.background import BackgroundWriter
from opscope.dump.transport.direct import DirectWriter
from opscope.dump.transport.ownership import RankLock
from opscope.dump.transport.process import WriterProcess
from opscope.dump.transport.store import Store, StorePlan
from opscope.dump.transport.writer import Writer
from opscope.messages import say_once

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings

DEFAULT_LIMIT = 512 * 2**20


def open_recorder(
    settings: DumpSettings, root: Path, run_id: str, rank: int, lock: RankLock, limit: int
) -> DumpRecorder:
    """Prepare the directory of a rank and start writing into it."""
    manifest = Manifest(run_id, rank, samples=settings.samples)
    store = Store(root, _plan(settings), manifest, "t")
    store.prepare(settings.text, metadata.config_json())
    writer = _background(settings, store, lock, limit) if not settings.synchronous else None
    writer = writer or DirectWriter(store, settings.saves_tensors)
    return DumpRecorder(settings, writer)


def _plan(settings: DumpSettings) -> StorePlan:
    form = FileForm(keeps_layout=not settings.trans_flag, samples=settings.samples)
    packs = settings.file_format == "bin"
    return StorePlan(settings.net_name, settings.statistic_category, packs, form)


def _background(settings: DumpSettings, store: Store, lock: RankLock, limit: int) -> Writer | None:
    manifest = store.manifest
    described = {
        "root": str(store.root),
        "net_name": settings.net_name,
        "categories": settings.statistic_category,
        "run": manifest.run,
        "rank": manifest.rank,
        "started": manifest.started,
        "saves": settings.saves_tensors,
        "packs": settings.file_format == "bin",
        "form": store.form,
    }
    try:
        process = WriterProcess(described, limit, lock.descriptor)
    except (OSError, subprocess.SubprocessError) as error:
        say_once(f"dump: cannot write in the background ({error}); values are written at once")
        return None
    return BackgroundWriter(store, process, settings.saves_tensors, limit)
