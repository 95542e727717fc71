"""The native hook: capture of known call sites without a Python frame; see native/hook/hook.cpp.

Without it everything works the same, in Python. It is built once per torch and Python, in the
background, when a run first finds it missing; that run goes over to it between two steps.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from opscope.capture.failures import is_of_device, report_device
from opscope.capture.stacks import is_user_file
from opscope.capture.thread_state import RESERVED, Site, ThreadState
from opscope.events import Node, Output
from opscope.messages import say_once
from opscope.native import build
from opscope.native.hook_library import background_has_ended, find_hook
from opscope.pipeline import Plan
from opscope.stats.cuda.device import DeviceRows
from opscope.stats.cuda.fallback import FallbackRows
from opscope.stats.cuda.forms import forms
from opscope.stats.memory import RowMemory
from opscope.stats.record import DTYPES

if TYPE_CHECKING:
    from opscope.capture.eager import EagerMode
    from opscope.capture.operators import Operator

_MODULE = "opscope_hook"


@functools.cache
def load() -> ModuleType | None:
    """The native module, if there is one for this torch and this Python."""
    if build.switched_off() or sys.version_info < (3, 11):
        return None
    path = find_hook(torch)
    if path is None:
        return None
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    if spec is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        say_once(f"the native hook in {path} does not load ({error}): going without")
        return None
    return module


def built_meanwhile() -> ModuleType | None:
    """The native module, if the background has built it since this was last asked."""
    if not background_has_ended():
        return None
    load.cache_clear()
    return load()


class Hook:
    """The hook at work for one mode. One at a time is active in a process: the latest."""

    key_allowed = True
    """Whether operators may reach it by a dispatch key; otherwise only by the mode."""
    _active: ClassVar[Hook | None] = None

    def __init__(
        self,
        module: ModuleType,
        mode: EagerMode,
        row_function: int,
        become_mode: Callable[[], None],
    ) -> None:
        self._module = module
        self._mode = mode
        self._memory: RowMemory
        self._state = (False, False, -1)
        if Hook._active is not None:
            Hook._active._mode.pipeline.meter.take_native()
            Hook._active._leave()
        Hook._active = self
        meter = mode.pipeline.meter
        module.configure(
            {
                "mode": mode,
                "local": mode.threads.local,
                "sites": mode.sites,
                "late": mode.late,
                "known": mode.known,
                "by_id": mode.names.by_id,
                "engine_code": mode.engine_code,
                "user_file": is_user_file,
                "outside": mode.outside,
                "plan_for": mode.pipeline.plan_for,
                "add_outputs": mode.add_outputs,
                "begin_call": mode.begin_call,
                "end_call": mode.end_call,
                "before_write": meter.before_native_write,
                "become_mode": become_mode,
                "report": _report,
                "alarm": mode.alarm,
                "reserved": RESERVED,
                "ThreadState": ThreadState,
                "Site": Site,
                "Node": Node,
                "Output": Output,
                "Plan": Plan,
                "measure_slowly": mode.measure_slowly,
                "kind_number": meter.kind_number,
                "advance": meter.advance,
                "submit": mode.submit,
                "row": row_function,
                "dtypes": DTYPES,
            }
        )
        self.set_memory(meter.memory)
        self.by_key = self.key_allowed and _key_is_free() and bool(module.claim_key())
        """Whether threads are watched by a dispatch key instead of a mode."""
        meter.hook = self
        meter.engine.tell_devices(self._add_device)
        module.install()

    def _add_device(self, index: int, device: DeviceRows | FallbackRows) -> None:
        """Rows are asked of this device; if they are Triton's, they can be enqueued natively."""
        numbers = {getattr(torch, name, None): number for name, number in DTYPES.items()}
        read = [(numbers[dtype], f.number, f.size, f.group) for dtype, f in forms().items()]
        native = device if isinstance(device, DeviceRows) else None
        self._module.add_lane(index, native, read)

    def remove(self) -> None:
        """Give dispatch back to torch, unless another capture has it."""
        if Hook._active is self:
            Hook._active = None
            self._module.remove()
            self._leave()

    def _leave(self) -> None:
        """Native code does not work for this mode any more."""
        meter = self._mode.pipeline.meter
        meter.hook = None
        meter.engine.tell_devices(None)
        self._mode.hook = None

    def watch_thread(self, on: bool) -> None:
        """Begin or end watching this thread by the dispatch key."""
        self._module.watch_thread(on)

    def register(self, operator: Operator) -> None:
        """An operator that Python has seen may be handled natively from now on."""
        schema = getattr(operator.func, "_schema", None)
        if schema is not None:
            self._module.register(schema.name, schema.overload_name, operator)

    def begin(self) -> None:
        """The mode has other objects for a step's data now."""
        mode = self._mode
        self._module.begin(mode.order, mode.changed, mode.step)

    def set_state(self, recording: bool, many: bool, revision: int) -> None:
        """Whether operators are recorded, may run in several threads, and which plans hold."""
        state = (recording, many, revision)
        if state != self._state:
            self._state = state
            self._module.set_state(*state)

    def set_memory(self, memory: RowMemory) -> None:
        self._memory = memory  # which its cursor belongs to
        self._module.set_cursor(memory.cursor.buffer_info()[0])

    def launch_all(self) -> None:
        self._module.launch_all()

    def note_write(self, tensor: Any) -> None:
        self._module.note_write(tensor)

    def end_step(self) -> tuple[bytes, bytes]:
        moments, copies = self._module.end_step()
        return moments, copies

    @property
    def counts(self) -> tuple[int, int]:
        """Calls handled natively, and calls left to Python."""
        native, python = self._module.counts()
        return native, python


def _key_is_free() -> bool:
    """Whether this torch is known to leave to others the dispatch key that the hook uses."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) < (2, 14)


def _report(what: str, error: BaseException | None) -> None:
    if is_of_device(error or what):
        report_device(error or what)
        return
    said = f"{type(error).__name__}: {error}" if error is not None else what
    say_once(
        f"internal error while watching an operator: {said}; it is not recorded, training goes on",
        key=f"hook:{said}",
    )
