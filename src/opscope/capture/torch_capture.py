"""Capture of a PyTorch program: modules, optimizers and steps around its operators."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.dlpack
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from opscope.capture import hook
from opscope.capture.failures import report_failure
from opscope.capture.fallback import Fallback
from opscope.capture.guards import plain_torch, quiet
from opscope.capture.kept_state import KeptState
from opscope.capture.known import Known
from opscope.capture.parameters import Names, parameter_facts
from opscope.capture.patches import Patches
from opscope.capture.recognising import (
    arguments,
    ends_in_gradients,
    fake_mode,
    find_optimizers,
    has_parameters,
    levels_of_grad,
)
from opscope.capture.stacks import place_of
from opscope.capture.steps import StepClock
from opscope.capture.thread_state import (
    DATA,
    EARLY_DATA,
    EVAL,
    FORWARD,
    LOOSE_TAIL,
    OPTIMIZER,
    SETUP,
    TAIL,
    ThreadState,
)
from opscope.capture.threads import Threads
from opscope.capture.watching import Alarm, OperatorWatch
from opscope.events import Loss, Node, Output, Outside, ParameterFact, Snapshot, StepRecord
from opscope.messages import say_once
from opscope.pipeline import Pipeline
from opscope.stats.memory import address_of, records_in
from opscope.stats.record import ROW_BYTES, VALID, row_from
from opscope.stats.torch_values import unsupported_reason

_UNSEEN_MAKERS = (
    (torch, "frombuffer"),
    (nn.Parameter, "__new__"),
    (torch, "from_dlpack"),
    (torch.utils.dlpack, "from_dlpack"),
    (torch._utils, "_rebuild_tensor"),
)
_STEP = next(
    constant
    for constant in Optimizer.profile_hook_step.__code__.co_consts
    if isinstance(constant, CodeType)
)
"""The code around every optimizer's `step`, which calls the hooks."""
_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled


class TorchCapture:
    """Watches every operator of this process from `start` to `stop`."""

    def __init__(
        self, pipeline: Pipeline, rank: Callable[[], int], with_class: bool = True
    ) -> None:
        self._pipeline = pipeline
        self._rank = rank
        self._with_class = with_class
        self._threads = Threads()
        row_function = pipeline.meter.engine.row_function
        native = hook.load() if row_function else None
        key = id if native is None else native.key
        known = Known() if native is None else native.Known()
        self._native = native
        self._names = Names(key)
        self._watch = OperatorWatch(pipeline, self._threads, self._names, key, known)
        self._watch.on_setup_end = self._begin_training
        self._watch.on_forward = self._begin_forward
        self._seen_by: hook.Hook | Fallback | None = None
        """What tells of operators."""
        self._clock = StepClock(self._end_step)
        self._patches = Patches()
        self._hooks: list[Any] = []
        self._losses: list[tuple[Callable[[], float], Node | None, int | None]] = []
        self._unscaled: dict[int, Tensor] = {}
        self._withheld: list[Callable[[], float]] = []
        """For optimizers that skip updates themselves: whether they did in this step."""
        self._began = 0.0
        self._running = False
        self._is_safe = True
        self._unsafe: int | None = None
        """A step that ended where training could not be ended."""
        self._follows_modules = False
        self._kept: KeptState | None = None
        self.on_safe_point: Callable[[int, bool], None] = lambda step, before_update: None
        """Called where training may be ended, with the step and whether its update is to come."""
        self.on_network: Callable[[], None] = lambda: None
        """Called where training may be ended, before an outermost module is called."""
        self.has_children = False
        """Whether ranks may run in children: then this process leaves the ranks' files to them."""

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Patch torch and begin with step 0."""
        self._running = True
        self._look()
        find_optimizers(self._clock.add)
        self._install()
        self._begin_step(0)

    def stop(self) -> None:
        """End the step under way, take everything off and close the sinks."""
        if not self._running:
            return
        self._running = False
        if self._watch.has_calls and (self._pipeline.opened or not self.has_children):
            self._open()
            self._watch.finish_late()
            self._deliver_last()
        self._threads.local.state.stepping = None
        self._set_recording(False)
        self._uninstall()
        self._pipeline.close()

    @property
    def step(self) -> int:
        """The step under way."""
        return self._watch.step

    def _look(self) -> None:
        """Have operators told of: natively, or by a dispatch mode without native code."""
        if self._native is None:
            self._seen_by = Fallback(self._watch)
        else:
            row_function = self._pipeline.meter.engine.row_function
            self._seen_by = self._watch.hook = hook.Hook(self._native, self._watch, row_function)
        self._threads.on_many = self._pipeline.on_revision = self._tell_state

    def _tell_state(self) -> None:
        if self._seen_by is not None:
            many, revision = self._threads.many, self._pipeline.revision
            self._seen_by.set_state(self._watch.recording, many, revision)

    def reconsider(self) -> None:
        """Ask the sinks anew what they want, from the step under way on."""
        if self._running:
            self._set_recording(self._pipeline.reconsider(self._watch.step))

    def name_classes(self, wanted: bool) -> None:
        """Whether scopes that are new from here on have the class of their module in the name."""
        self._with_class = wanted

    def is_replicated(self) -> bool:
        """Whether a module runs as a replica of those of other ranks."""
        return any(
            isinstance(module, nn.parallel.DistributedDataParallel)
            for module in self._names.roots()
        )

    def on_bad_output(self, alarm: Alarm) -> None:
        """Before the start: have this told of outputs with NaN or Inf, on the CPU."""
        self._watch.alarm = alarm

    def link_recorder(self, note_node: int, mute: int) -> None:
        """Before the start: have native code told of the node of each call, and of our own code."""
        if self._native is not None:
            self._native.link_recorder(note_node, mute)

    def hold_batch(self) -> None:
        """Something looks wrong: keep the batch there is, if batches are kept."""
        if self._kept is not None:
            self._kept.hold()

    def keep_state(self) -> Callable[[], Snapshot]:
        """Remember the batch and the random states of each step; returns what takes a snapshot."""
        kept = self._kept = KeptState(self._names, self._clock.live)
        self._watch.on_arrival = kept.add_batch

        def snapshot() -> Snapshot:
            with plain_torch():
                return kept.snapshot()

        return snapshot

    def mark_step(self) -> None:
        """`opscope.step()`: the script says that a step ends here."""
        if self._running:
            self._clock.mark()

    @property
    def opened(self) -> bool:
        """Whether any operator was seen, so that the sinks were opened."""
        return self._pipeline.opened

    def abandon(self) -> None:
        """In a forked child: look away and forget the sinks' files."""
        self._running = False
        self._watch.recording = False
        self._uninstall()

    def _begin_training(self) -> None:
        for optimizer in self._clock.live():
            self._names.add_parameters(optimizer, of_modules=False)
        self._open()

    def _open(self) -> None:
        with plain_torch():  # rows of the setup are delivered now
            self._pipeline.open(self._rank())

    # ------------------------------------------------------------------ steps

    def _begin_step(self, step: int) -> None:
        self._watch.begin_step(step)
        self._began = time.perf_counter()
        wanted = self._pipeline.begin_step(step)
        if self._kept is not None:
            with plain_torch():
                self._kept.begin_step(step, wanted)
        if wanted and step > 0:
            self._watch.end_setup()  # steps went by that were not recorded
        self._set_recording(wanted)

    def _end_step(self, skipped: bool) -> None:
        if not self._running:
            return
        if self._watch.recording:
            self._watch.end_setup()
            self._deliver_step(skipped, complete=True)
        ended = self._watch.step
        self._begin_step(ended + 1)
        if self._is_safe:
            self.on_safe_point(ended, False)
        else:
            self._unsafe = ended

    def _begin_forward(self) -> None:
        """An operator under way begins a step: nothing can be raised here."""
        self._threads.local.state.phase = FORWARD
        self._is_safe = False
        try:
            self._clock.forward_began()
        finally:
            self._is_safe = True

    def _deliver_last(self) -> None:
        """What there is of the step under way, which may be none."""
        complete = self._clock.is_whole
        rest = not complete and self._clock.is_rest and self._watch.step > 0
        self._deliver_step(skipped=False, complete=complete, rest=rest and not self._watch.raised)

    def _deliver_step(self, skipped: bool, complete: bool, rest: bool = False) -> None:
        step, calls = self._watch.step, self._watch.finish_step()
        seconds = time.perf_counter() - self._began
        losses, self._losses = self._losses, []
        withheld, self._withheld = self._withheld, []
        self._unscaled.clear()

        def record() -> StepRecord:
            numbers = [Loss(value(), node, call) for value, node, call in losses]
            skips = skipped or any(bad() > 0 for bad in withheld)
            return StepRecord(step, calls, numbers, seconds, skips, complete, rest)

        with plain_torch(), _never_ending_training():
            self._pipeline.end_step(record)
        self._threads.end_step()

    def _set_recording(self, wanted: bool) -> None:
        self._watch.recording = wanted
        # A step that is not recorded needs module calls only where they are what counts steps.
        self._follows_modules = wanted or (self._running and not self._clock.has_optimizer)
        self._tell_state()

    # ------------------------------------------------------------------ patches

    def _install(self) -> None:
        wrap = self._patches.wrap
        self._patches.set(nn.Module, "__call__", self._module_call(nn.Module.__call__))
        wrap(torch.autograd, "_engine_run_backward", self._backward)
        wrap(Optimizer, "__init__", self._optimizer_init)
        wrap(torch.amp.GradScaler, "scale", self._scale)
        wrap(torch.amp.GradScaler, "step", self._scaler_step)
        wrap(torch.amp.GradScaler, "update", self._scaler_update)
        wrap(torch, "compile", self._compile)
        wrap(torch.utils, "swap_tensors", self._swap_tensors)
        self._patch_checkpoint()
        if isinstance(self._seen_by, Fallback):
            for name in ("trace", "trace_module"):
                wrap(torch.jit, name, self._unwatched)
        wrap(torch.autograd.graph.saved_tensors_hooks, "__init__", self._saved_tensors_hooks)
        for owner, name in _UNSEEN_MAKERS:
            wrap(owner, name, self._maker)
        wrap(torch.utils.data.DataLoader, "__iter__", self._data_loader_iter)
        wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", self._next_batch)
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def _uninstall(self) -> None:
        if self._seen_by is not None:
            self._seen_by.remove()
            self._seen_by = None
        self._follows_modules = False
        self._patches.undo()
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, capture = self._threads.local, self

        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if _compiling() or not capture._follows_modules:
                return original(module, *args, **kwargs)
            state = local.state
            parent = state.scope
            scope = parent.children.get(id(module))
            if scope is None or scope.module() is not module:
                scope = parent.child(module, capture._with_class)
            if state.depth == 0:
                capture._enter_outermost(state, module, args, kwargs)
                if parent is not state.scope:
                    parent = state.scope
                    scope = parent.child(module, capture._with_class)
            state.scope = scope
            state.depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                state.depth -= 1
                state.scope = parent

        return functools.wraps(original)(__call__)

    def _enter_outermost(
        self, state: ThreadState, module: nn.Module, args: Any, kwargs: Any
    ) -> None:
        if state.phase == OPTIMIZER and state.stepping not in _stepping():
            state.phase, state.scope = FORWARD, self._threads.root  # its step raised
            state.stepping = None
        if state.backward_depth:
            return
        trains = module.training or _grad_enabled()
        is_network = has_parameters(module)
        if is_network and fake_mode() is None:
            self._clock.network_called(lambda: (id(module), *place_of(sys._getframe())), trains)
        if not self._watch.recording:
            return
        with quiet():
            self._names.add_root(module)
            self._watch.end_setup()
            if state.phase != OPTIMIZER:
                state.phase = FORWARD if trains else EVAL
            passes, evaluates = self._watch.passes, state.phase == EVAL
            if is_network and passes.enter(module, state, evaluates, self._watch.calls):
                self._watch.tell_pass()
                if self._kept is not None:
                    self._kept.begin_pass()
            for name, tensor in arguments(args, kwargs):
                if self._watch.source_of(tensor) == ("outside", "", ""):
                    self._watch.add_arrival(tensor, Outside("batch", name))
                elif self._kept is not None:  # made by an operator, but a batch to the model
                    self._kept.add_batch(tensor, Outside("batch", name))
            if self._kept is not None:
                self._kept.network_called()
        self.on_network()
        if type(module).__name__ == "OptimizedModule":
            self._say_compiled()

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            state = self._threads.local.state
            if self._unsafe is not None:
                ended, self._unsafe = self._unsafe, None
                self.on_safe_point(ended, False)
            if self._watch.recording and not state.backward_depth:
                self._watch.end_setup()
                if kwargs.get("accumulate_grad"):  # not for `autograd.grad`
                    try:
                        with quiet():
                            self._note_losses(roots)
                    except Exception as error:  # noqa: BLE001 - watching must never end training
                        report_failure(error)
            base = state.backward_base
            state.backward_base = state.scope
            state.backward_depth += 1
            try:
                return original(roots, *args, **kwargs)
            finally:
                state.backward_depth -= 1
                state.backward_base = base
                if not state.backward_depth:
                    if ends_in_gradients(args, kwargs) and fake_mode() is None:
                        self._clock.backward_ended()
                    self._leave_backward(state)

        return run_backward

    def _leave_backward(self, state: ThreadState) -> None:
        if self._kept is not None:
            self._kept.end_backward()
        loose = self._clock.is_loose
        if state.phase in (FORWARD, EVAL):
            state.phase = LOOSE_TAIL if loose else TAIL
            self._watch.end_backward()
        if loose and not self._sees_forward():
            self._begin_forward()

    def _sees_forward(self) -> bool:
        """Whether it will be seen that an operator is differentiable."""
        return self._watch.recording and not levels_of_grad()

    def _note_losses(self, roots: Any) -> None:
        for root in roots:
            if isinstance(root, Tensor) and root.numel() == 1 and not unsupported_reason(root):
                loss = self._unscaled.get(id(root), root)
                source = self._watch.source_of(loss)
                if isinstance(source, Output):
                    call = self._watch.known.call_of(self._watch.key(loss))
                    self._losses.append((self._value_of(loss), source.node, call))
                else:
                    self._losses.append((self._value_of(loss), None, None))

    def _value_of(self, loss: Tensor) -> Callable[[], float]:
        """A loss as it is now; on a GPU it is known only when the step's rows are."""
        with plain_torch():
            if not loss.is_cuda:
                number = _number(loss)
                return lambda: number
            buffer = bytearray(ROW_BYTES)
            if self._pipeline.meter.engine.fill(loss, address_of(buffer)):
                buffer[0] = VALID
            return lambda: _only_element(buffer)

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        state = self._threads.local.state
        state.nests = state.stepping is not None  # or a step before has raised
        if state.nests and _stepping().count(optimizer) > 1:
            return None  # a class that calls its base's step
        state.phase = OPTIMIZER
        state.stepping = optimizer
        if state.depth == 0:
            state.scope = self._threads.root.optimizer(optimizer, self._with_class)
        with_closure = self._wrap_closure(state, args, kwargs)
        if self._watch.recording:
            with quiet():
                self._watch.end_setup()
                if with_closure is None:  # or the modules it calls name the parameters first
                    self._names.add_optimizer(optimizer)
            if not self._skips_by_itself(optimizer):
                self._look_before_update(optimizer)
        return with_closure

    def _skips_by_itself(self, optimizer: Optimizer) -> bool:
        """Whether a fused optimizer will leave the parameters alone, as a gradient scaler says.

        On a GPU that is known only with the step's rows, unless we wait for them.
        """
        found = getattr(optimizer, "found_inf", None)
        if not isinstance(found, Tensor):
            return False
        self._withheld.append(self._value_of(found))
        if found.is_cuda and not self._pipeline.strict:
            return False
        with plain_torch():
            return bool(found.item())

    def _look_before_update(self, optimizer: Optimizer) -> None:
        """What went wrong so far must not reach the parameters unseen."""

        def losses() -> list[Loss]:
            return [Loss(value(), node, call) for value, node, call in self._losses]

        def facts() -> list[ParameterFact]:
            return parameter_facts(self._names, self._clock.live(), optimizer)

        with plain_torch(), _never_ending_training():
            self._pipeline.before_update(self._watch.calls_so_far(), losses, facts)
        try:
            self.on_safe_point(self._watch.step, True)
        except BaseException:
            self._threads.local.state.stepping = None  # or this would keep the optimizer alive
            raise

    def _wrap_closure(self, state: ThreadState, args: Any, kwargs: Any) -> Any:
        """A closure computes a loss: what runs inside it is forward."""
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._closure(state, args[1]), *args[2:]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._closure(state, kwargs["closure"])}
        return None

    def _closure(self, state: ThreadState, original: Callable[[], Any]) -> Callable[[], Any]:
        def closure() -> Any:
            scope, phase = state.scope, state.phase
            state.scope, state.phase = self._threads.root, FORWARD
            try:
                return original()
            finally:
                state.scope, state.phase = scope, phase
                if self._watch.recording and state.stepping is not None:
                    with quiet():
                        self._names.add_optimizer(state.stepping)

        return closure

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        root, state = self._threads.root, self._threads.local.state
        outer = None
        if state.nests or state.stepping is not optimizer:
            stepping = _stepping()
            if stepping.count(optimizer) > 1:
                return
            outer = stepping[1] if len(stepping) > 1 else None  # one that has another step for it
        if state.depth == 0:
            state.scope = root if outer is None else root.optimizer(outer, self._with_class)
        state.phase = FORWARD if outer is None else OPTIMIZER
        state.stepping = outer
        if self._watch.recording:
            with quiet():
                self._names.add_optimizer(optimizer)
        self._clock.stepped(optimizer, inside_another=outer is not None)

    def _optimizer_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(optimizer, *args, **kwargs)
            self._clock.add(optimizer)

        return __init__

    def _scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if self._watch.recording and isinstance(scaled, Tensor):
                self._unscaled[id(scaled)] = outputs
            return scaled

        return scale

    def _scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if scaler.is_enabled():
                self._clock.scaler_stepped(optimizer)
            return original(scaler, optimizer, *args, **kwargs)

        return step

    def _scaler_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            self._clock.scaler_updated()
            return result

        return update

    def _saved_tensors_hooks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Operators of a pack hook run inside the operator whose tensors they pack."""

        def __init__(hooks: Any, pack: Callable[..., Any], unpack: Any) -> None:  # noqa: N807
            @functools.wraps(pack)
            def watched_pack(tensor: Tensor) -> Any:
                seen_by = self._seen_by
                if seen_by is None:
                    return pack(tensor)
                entered, raised = seen_by.enter_hook(), True
                try:
                    packed = pack(tensor)
                    raised = False
                finally:
                    seen_by.leave_hook(entered, raised)
                return packed

            original(hooks, watched_pack, unpack)

        return __init__

    def _patch_checkpoint(self) -> None:
        """What a checkpoint runs again in backward runs in the scope it first ran in."""
        module = torch.utils.checkpoint
        name = "_checkpoint_without_reentrant_generator"
        if hasattr(module, f"{name}_impl"):  # from torch 2.15 on
            name = f"{name}_impl"
        generator = getattr(module, name)
        reentrant = module.CheckpointFunction

        @functools.wraps(generator)
        def start(function: Any, *args: Any, **kwargs: Any) -> Any:
            return generator(self._in_this_scope(function), *args, **kwargs)

        class CheckpointFunction(reentrant):  # type: ignore[misc, valid-type]
            @classmethod
            def apply(cls, function: Any, *args: Any) -> Any:
                return reentrant.apply(self._in_this_scope(function), *args)

        self._patches.wrap(module, name, lambda _: start)
        self._patches.set(module, "CheckpointFunction", CheckpointFunction)

    def _in_this_scope(self, function: Callable[..., Any]) -> Callable[..., Any]:
        here = self._threads.local.state.scope
        depth = self._threads.local.state.depth

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            state = self._threads.local.state
            before = state.scope, state.depth
            state.scope, state.depth = here, depth
            try:
                return function(*args, **kwargs)
            finally:
                state.scope, state.depth = before

        return run

    def _swap_tensors(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """torch refuses to swap tensors that others hold weak references to, as we do."""

        def swap_tensors(one: Tensor, other: Tensor) -> None:
            with quiet():
                keys = [self._names.let_go(tensor) for tensor in (one, other)]
                for tensor in (one, other):
                    self._watch.forget(tensor)
            try:
                original(one, other)
            finally:
                with quiet():
                    named = [self._names.by_id.pop(key, None) for key in keys]
                    for tensor, name in zip((one, other), named, strict=True):
                        if name is not None:
                            self._names.take_back(tensor, name)

        return swap_tensors

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            self._say_compiled()
            return original(*args, **kwargs)

        return compile

    def _unwatched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Tracing does not work under a dispatch mode."""

        def run(*args: Any, **kwargs: Any) -> Any:
            recording = self._watch.recording
            self._set_recording(False)
            try:
                return original(*args, **kwargs)
            finally:
                self._set_recording(recording)

        return run

    def _say_compiled(self) -> None:
        say_once(
            "this program uses torch.compile: operators inside compiled regions are not looked "
            "into yet, only what runs outside them is recorded"
        )

    def _maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that makes a tensor without an operator."""

        def make(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if self._watch.recording and not (args and isinstance(args[0], Tensor)):
                self._watch.forget(made)
            return made

        return make

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        """What runs in here loads data, and none of its modules is a network."""
        state = self._threads.local.state
        scope, phase = state.scope, state.phase
        state.scope = self._threads.root.data()
        state.phase = DATA if self._watch.setup_done else EARLY_DATA
        state.depth += 1
        try:
            yield
        finally:
            state.depth -= 1
            state.scope = scope
            state.phase = FORWARD if phase == SETUP and self._watch.setup_done else phase

    def _data_loader_iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(loader: Any) -> Any:  # noqa: N807
            with self._loading():
                return original(loader)

        return __iter__

    def _next_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807
            with self._loading():
                batch = original(iterator)
            if self._watch.recording:
                with quiet():
                    for name, tensor in arguments((batch,), {}):
                        self._watch.add_arrival(tensor, Outside("batch", name))
            return batch

        return __next__


def _stepping() -> list[Any]:
    """The optimizers whose `step` is on the stack, innermost first."""
    found, frame = [], sys._getframe()
    while (back := frame.f_back) is not None:
        frame = back
        if frame.f_code is _STEP:
            found.append(frame.f_locals.get("self"))
    return found


@contextlib.contextmanager
def _never_ending_training() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - watching must never end training
        report_failure(error)


def _number(value: Tensor) -> float:
    number = value.item()
    return float(number.real) if isinstance(number, complex) else float(number)


def _only_element(buffer: bytearray) -> float:
    """The one element that the record in `buffer` is of; NaN if it was never filled in."""
    if not buffer[0]:
        return math.nan
    row = row_from(records_in(buffer, 0, ROW_BYTES)[0])
    return math.nan if row.nan else float(row.min)
