"""The native observer of operators; see native/hook/observer.h.

Without it a dispatch mode does the same, slower: fallback.py. It is built once per torch and
Python: ahead by `opscope doctor --build`, or by the first run that finds it missing.
"""

from __future__ import annotations

import functools
from types import FrameType, ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.capture import guards
from opscope.capture.attribution import UNKNOWN
from opscope.capture.failures import is_of_device, is_ours, report_device
from opscope.capture.node_book import Site
from opscope.capture.operators import Operator, as_texts
from opscope.capture.stacks import is_compiled_file, is_user_file
from opscope.capture.thread_state import ThreadState
from opscope.capture.watching import ENGINE, Begun, OperatorWatch
from opscope.events import Node, Output, Phase, Source
from opscope.interruptions import hand_over, uninterrupted
from opscope.messages import say_once
from opscope.native import build
from opscope.native.extension import load_extension
from opscope.native.hook_library import find_hook
from opscope.pipeline import Plan
from opscope.stats.cuda.device import DeviceRows
from opscope.stats.cuda.fallback import FallbackRows
from opscope.stats.cuda.forms import forms
from opscope.stats.glance import Glance
from opscope.stats.memory import RowMemory
from opscope.stats.record import DTYPES

_MODULE = "opscope_hook"


@functools.cache
def load() -> ModuleType | None:
    """The native module, if there is one for this torch and this Python."""
    if build.switched_off():
        return None
    path = find_hook(torch)
    if path is None:
        return None
    module = load_extension(_MODULE, path, "hook")
    if module is not None:
        _show_leaf(module)
    return module


def _show_leaf(module: ModuleType) -> None:
    """Show native code a leaf and its node; whose leaf it cannot see, it asks Python for."""
    with guards.quiet(), torch.inference_mode(False), torch.enable_grad():
        leaf = torch.zeros(1, device="cpu", requires_grad=True)
        made = leaf.view_as(leaf).grad_fn
        if made is not None:
            module.learn_leaves(made.next_functions[0][0], leaf)


class Hook:
    """The observer at work for one capture. One at a time is active in a process: the latest."""

    natively = True
    """True if known call sites are handled natively; otherwise Python is told of every call."""
    _active: ClassVar[Hook | None] = None

    def __init__(self, module: ModuleType, watch: OperatorWatch, row_function: int) -> None:
        self._module = module
        self._watch = watch
        self._memory: RowMemory
        self._state = (False, False, -1)
        if Hook._active is not None:
            Hook._active._watch.pipeline.meter.take_native()
            Hook._active._leave()
        Hook._active = self
        meter, delivery = watch.pipeline.meter, watch.delivery

        # A function of its own: other observers, which may hold training, are called alike.
        def alarm(*args: Any) -> None:
            delivery.bad_outputs(*args)

        module.configure(
            {
                "local": watch.threads.local,
                "sites": watch.book.sites,
                "late": delivery.late,
                "known": watch.known,
                "by_id": watch.names.by_id,
                "engine_code": ENGINE,
                "user_file": is_user_file,
                "compiled_file": is_compiled_file,
                "begin": uninterrupted(self._begin),
                "finish": uninterrupted(watch.finish),
                "forward_begins": uninterrupted(watch.forward_begins),
                "new_operator": uninterrupted(_operator),
                "note_arguments": uninterrupted(self._note_arguments),
                "hand_over": hand_over,
                "only_python": not self.natively,
                "outside": uninterrupted(watch.outside),
                "unknown": UNKNOWN,
                "backward_phase": Phase.BACKWARD,
                "optimizer_phase": Phase.OPTIMIZER,
                "plan_for": uninterrupted(watch.pipeline.plan_for),
                "add_outputs": uninterrupted(watch.add_outputs),
                "begin_call": uninterrupted(delivery.begin_call),
                "end_call": uninterrupted(delivery.end_call),
                "before_write": uninterrupted(meter.before_native_write),
                "report": _report,
                "alarm": uninterrupted(alarm) if delivery.bad_outputs else None,
                "ThreadState": ThreadState,
                "Site": Site,
                "Node": Node,
                "Output": Output,
                "Plan": Plan,
                "Begun": Begun,
                "measure_slowly": uninterrupted(delivery.measure_slowly),
                "kind_number": uninterrupted(meter.kind_number),
                "advance": uninterrupted(meter.advance),
                "submit": uninterrupted(delivery.submit),
                "row": row_function,
                "dtypes": DTYPES,
            }
        )
        watch.attribution.current_grad_node = module.current_grad_node
        guards.tell(module)
        self.set_memory(meter.memory)
        watch.book.marks.on_move = self._tell_marks
        self._tell_marks()
        meter.hook = self
        meter.engine.tell_devices(self._add_device)

    def _begin(
        self,
        operator: Operator,
        tensors: list[Any],
        sources: list[Source],
        written: list[Any],
        frame: FrameType | None,
    ) -> Begun:
        return self._watch.begin(operator, tensors, sources, written, frame, self._texts)

    def _note_arguments(self, node: Node) -> None:
        self._watch.note_arguments(node, self._texts())

    def _texts(self) -> dict[str, str]:
        return as_texts(self._module.texts())

    def _add_device(self, index: int, device: DeviceRows | FallbackRows) -> None:
        """Let native code enqueue the rows of this device, if Triton computes them."""
        numbers = {getattr(torch, name, None): number for name, number in DTYPES.items()}
        read = [(numbers[dtype], f.number, f.size, f.group) for dtype, f in forms().items()]
        native = device if isinstance(device, DeviceRows) else None
        self._module.add_lane(index, native, read)

    def remove(self) -> None:
        """Look away for good, unless another capture looks."""
        if Hook._active is self:
            Hook._active = None
            self._module.remove()
            self._leave()

    def _leave(self) -> None:
        """Native code does not work for this capture any more."""
        meter = self._watch.pipeline.meter
        meter.hook = None
        meter.engine.tell_devices(None)
        self._watch.book.marks.on_move = lambda: None
        self._watch.hook = None

    def enter_hook(self) -> int:
        """Note that a pack hook of the user's runs inside an operator from here on."""
        depth: int = self._module.enter_python()
        return depth

    def leave_hook(self, entered: int, raised: bool) -> None:
        """Note the end of the hook; if it raised, that is not the operator's fault."""
        self._module.leave_python(entered, raised)

    def begin(self) -> None:
        """Hand native code the objects that keep the data of a new step."""
        calls = self._watch.calls
        lists = calls.nodes, calls.renewed, calls.passes, calls.further
        self._module.begin(*lists, self._watch.step)
        self.set_passes()

    def set_passes(self) -> None:
        """Tell native code which pass has begun."""
        training, evaluation = self._watch.passes.training, self._watch.passes.evaluation
        first, noted = self._watch.passes.first_serial, self._watch.calls.passes
        self._module.set_passes(
            *(training.serial, training.number, evaluation.serial, evaluation.number),
            *(first, noted[-1] if noted else 0),
        )

    def take_links(self, calls: Calls) -> None:
        """Complete the calls of the step under way."""
        changes, crossings = self._module.take_links()
        calls.changes.frombytes(changes)
        calls.crossings.frombytes(crossings)

    def set_state(self, recording: bool, many: bool, revision: int) -> None:
        """Tell native code whether to record, whether in several threads, and which plans hold."""
        state = (recording, many or not self.natively, revision)
        if state != self._state:
            self._state = state
            self._module.set_state(*state)

    def set_memory(self, memory: RowMemory) -> None:
        self._memory = memory  # which its cursor belongs to
        self._module.set_cursor(memory.cursor.buffer_info()[0])

    def _tell_marks(self) -> None:
        self._module.set_marks(self._watch.book.marks.numbers.buffer_info()[0])

    def mute_thread(self) -> None:
        """Look away from what this thread runs until it ends."""
        self._module.mute_thread()

    def number(self, tensor: Any) -> float | None:
        """The one element of a tensor, if that is simple."""
        found: float | None = self._module.number(tensor)
        return found

    def launch_all(self) -> None:
        self._module.launch_all()

    def note_write(self, tensor: Any) -> None:
        self._module.note_write(tensor)

    def glance(self, records: NDArray[np.void]) -> Glance:
        return Glance(*self._module.glance(records))

    def has_bad(self) -> bool:
        found: bool = self._module.has_bad()
        return found

    def end_step(self) -> tuple[bytes, bytes]:
        moments, copies = self._module.end_step()
        return moments, copies

    @property
    def counts(self) -> tuple[int, int]:
        """Calls handled natively, and calls left to Python."""
        native, python, _ = self._module.counts()
        return native, python

    @property
    def told(self) -> int:
        """The calls that torch has told this thread of, most of which are shown."""
        told: int = self._module.counts()[2]
        return told


def _operator(name: str, overload: str) -> Operator | None:
    """Return an operator that has not been seen before; None if it is not to be watched."""
    try:
        return Operator.named(name, overload)
    except RuntimeError:  # it was taken back meanwhile
        return None


def _report(what: str, error: BaseException | None) -> bool:
    """Say what went wrong; False if the exception is the script's own business."""
    if error is not None and not is_ours(error):
        return False
    if is_of_device(error or what):
        report_device(error or what)
        return True
    said = f"{type(error).__name__}: {error}" if error is not None else what
    say_once(
        f"internal error while watching an operator: {said}; it is not recorded, training goes on",
        key=f"hook:{said}",
    )
    return True
