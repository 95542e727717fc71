"""The settings of the recorder: the "rdr" section of a file, variables, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opscope.settings.checks import InvalidError, boolean, integer, one_of, text
from opscope.settings.paths import absolute
from opscope.settings.sections import SettingKey

SECTION = "rdr"
HANG_SECONDS = 600
"""After so long without any operator a training is said to hang."""


@dataclass(frozen=True)
class RecorderSettings:
    """The settings of the recorder: if, when and where it exports."""

    enable: bool = False
    mode: int = 1
    """1: export when training ends abnormally; 2: also when it ends well, and after step 0."""
    path: str = ""
    """An absolute path; empty for the run directory."""
    hang: int = HANG_SECONDS
    """Seconds without an operator that count as a hang; 0 for never."""


def directory(value: object) -> str:
    """An absolute path; whether it can be written to is seen when it is."""
    path = text(value)
    if "\0" in path:
        raise InvalidError("must not contain a NUL character")
    return absolute(path) if path else ""


RECORDER_KEYS = (
    SettingKey(SECTION, "enable", boolean, None),
    SettingKey(SECTION, "mode", one_of(1, 2), None),
    SettingKey(SECTION, "path", directory, None),
    SettingKey(SECTION, "hang", integer(0), None),
)
"""The keys of the section; what is not given is left to others."""

SourceSettings = Mapping[str, Any]
"""Settings of one source by name; those that it does not give are missing or None."""


def merged(sources: Sequence[SourceSettings], enabled: bool) -> RecorderSettings:
    """Merge what the sources say; the first that gives a setting counts."""
    settings = RecorderSettings(enable=enabled)
    for source in reversed(sources):
        given = {name: value for name, value in source.items() if value is not None}
        settings = replace(settings, **given)
    return settings
