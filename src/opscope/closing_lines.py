"""The last lines that a session says: what there is, and what to look at next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from opscope.dump.layout import PACK
from opscope.messages import say
from opscope.wording import typed

if TYPE_CHECKING:
    from opscope.capture.protocol import Capture
    from opscope.events import Sink
    from opscope.settings.dump import DumpSettings
    from opscope.settings.run import RunSettings


def why_nothing(settings: RunSettings, capture: Capture | None) -> str:
    """Say why no file was written."""
    if capture is None or capture.step == 0:
        return "no operator ran"
    asked = settings.dump.iterations if settings.dump else settings.steps
    return f"of the steps asked for ({asked}) none was reached in {capture.step} steps"


def summaries(sinks: Sequence[Sink]) -> list[str]:
    """Return what the sinks have to say for themselves in the end."""
    tellers = (getattr(sink, "summary", None) for sink in sinks)
    return [text for tell in tellers if tell is not None and (text := str(tell()))]


def say_next_of_dump(dump: DumpSettings | None) -> None:
    """Say how to get at the files of a dump, if there are any."""
    if dump is None or not any(dump.path.glob(f"rank_*/{dump.net_name}")):
        return
    if any(dump.path.glob(f"rank_*/{dump.net_name}/*/*/{PACK}")):
        say(f"next: {typed('convert', dump.path)}")
    else:
        folder = f"{quote(str(dump.path))}/rank_*/{quote(dump.net_name)}/*"
        say(f"next: ls {folder}")


def say_next_of_run(directory: Path, is_whole: bool, has_hits: bool) -> None:
    """Say where the run is, with a command that shows it."""
    run = _relative(directory)
    written = "run written to" if is_whole else "what was recorded until then is in"
    verb = "hits" if has_hits else "show"
    say(f"{written} {run}; next: {typed(verb, run)}")


def _relative(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
