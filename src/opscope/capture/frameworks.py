"""The frameworks whose programs can be watched, each imported only when the script imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.errors import OpscopeError

if TYPE_CHECKING:
    from opscope.capture.processes import JoiningRank, Parent
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
    follow_children: Callable[[Parent, JoiningRank], None]
    """Has children of this process that become ranks join the run."""

    @property
    def is_installed(self) -> bool:
        """True if a script could import it."""
        return self.module in sys.modules or _can_be_found(self.module)


def _torch(pipeline: Pipeline, rank: Callable[[], int], with_class: bool) -> Capture:
    from opscope.capture.torch_capture import TorchCapture

    return TorchCapture(pipeline, rank, with_class)


def _torch_children(parent: Parent, rank: JoiningRank) -> None:
    from opscope.capture.processes import follow_children

    follow_children(parent, rank)


FRAMEWORKS = (
    Framework("torch", "PyTorch", "pip install 'opscope[torch]'", _torch, _torch_children),
)


def installed() -> list[Framework]:
    """Return the frameworks that scripts can use here; fail, and say what to do, without any."""
    found = [framework for framework in FRAMEWORKS if framework.is_installed]
    if not found:
        first = FRAMEWORKS[0]
        raise OpscopeError(
            f"{first.title} is not installed for this Python; to install it: {first.install}"
        )
    return found


def _can_be_found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
