"""The frameworks whose programs can be watched, each imported only when the script imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.errors import OpscopeError

if TYPE_CHECKING:
    from opscope.capture.protocol import Capture
    from opscope.pipeline import Pipeline


@dataclass(frozen=True)
class Framework:
    """One framework: how to recognise it in a script and how to watch it."""

    module: str
    """The module that a script imports."""
    title: str
    install: str
    capture: Callable[[Pipeline, Callable[[], int], bool], Capture]
    """Makes the capture of a pipeline; with the rank, and whether scopes name classes."""

    def require(self) -> None:
        """Fail, and say what to do, where the framework is not installed."""
        if self.module not in sys.modules and not _can_be_found(self.module):
            raise OpscopeError(
                f"{self.title} is not installed for this Python; to install it: {self.install}"
            )


def _torch(pipeline: Pipeline, rank: Callable[[], int], with_class: bool) -> Capture:
    from opscope.capture.torch_capture import TorchCapture

    return TorchCapture(pipeline, rank, with_class)


TORCH = Framework("torch", "PyTorch", "pip install 'opscope[torch]'", _torch)


def _can_be_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
