"""Settings handed to spawned processes through one environment variable."""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Mapping

from opscope.errors import OpscopeError
from opscope.settings.run import RunSettings

HANDOVER_VARIABLE = "OPSCOPE_SETTINGS"


def hand_over(settings: RunSettings) -> str:
    """The value to set the variable to; compressed, because Linux allows 128 KiB for it."""
    packed = zlib.compress(settings.to_json().encode("utf-8"), level=9)
    return base64.b64encode(packed).decode("ascii")


def handed_over(environ: Mapping[str, str]) -> RunSettings | None:
    """The settings a parent process handed to this one, if it did."""
    value = environ.get(HANDOVER_VARIABLE, "")
    if not value:
        return None
    try:
        text = zlib.decompress(base64.b64decode(value, validate=True)).decode("utf-8")
    except (binascii.Error, ValueError, zlib.error) as error:
        raise OpscopeError(f"environment: {HANDOVER_VARIABLE} is damaged: {error}") from error
    return RunSettings.from_json(text)


class Handover:
    """Variables of the environment that let child processes join a run, while it lasts."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}

    def begin(self, values: Mapping[str, str]) -> None:
        """Set them for processes that start from here on."""
        self._before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)

    def end(self) -> None:
        """Leave the environment as it was."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
