"""The devices that the user wants dumped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opscope.messages import say_once
from opscope.stats.devices import KINDS

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings


def without_idle_choice(settings: DumpSettings) -> DumpSettings:
    """The same settings without `support_device`, if that leaves out no device there is.

    Rows do not tell the device, so telling devices apart takes a look at every value, in Python.
    """
    chosen, devices = settings.support_device, _count_devices()
    if chosen is None or devices is None or not set(chosen).issuperset(range(devices)):
        return settings
    if not devices:
        _say_no_effect()
    return replace(settings, support_device=None)


def _count_devices() -> int | None:
    """Count the devices that torch sees; None if that is not known."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    accelerator = torch._C._get_accelerator().type
    if accelerator == "cpu":
        return sum(kind.count(torch) for kind in KINDS.values())
    return KINDS[accelerator].count(torch) if accelerator in KINDS else None


def _say_no_effect() -> None:
    say_once('dump: "support_device" has no effect on the CPU')


class Devices:
    """The local devices whose values are wanted."""

    def __init__(self, indices: Iterable[int]) -> None:
        self._indices = frozenset(indices)

    @classmethod
    def of(cls, indices: Iterable[int] | None) -> Devices | None:
        """The user's choice, or None when all devices are wanted."""
        return None if indices is None else cls(indices)

    def select(self, tensor: Any) -> bool:
        """Tell whether a tensor on this device is wanted; a tensor on the CPU always is."""
        index = tensor.device.index
        if tensor.device.type == "cpu" or index is None:
            _say_no_effect()
            return True
        return index in self._indices
