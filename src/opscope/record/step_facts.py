"""The facts noted of each step: loss, learning rate, memory, the batch, random states."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscope.capture.guards import plain_torch
from opscope.capture.recognising import arguments
from opscope.record.ring import Ring
from opscope.stats.devices import Arriving, kind_of
from opscope.stats.torch_values import only_number

_DIGEST_BYTES = 1 << 16
"""So many bytes at the beginning and at the end of a tensor make its digest."""
_MOST_TENSORS = 16
"""So many tensors of a step are noted: the latest, where it has more batches than one."""
_EVALUATED_S = 0.01
"""Batches of an evaluation are noted this far apart, which is all of them but for quick ones."""
_RESIDENT_S = 0.05
"""The memory of the process is asked for this far apart: the kernel adds it up each time."""
_PATIENCE = 8
"""So many steps the numbers of a GPU are waited for."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Quietly:
    """A block of tensor code that neither the recorder nor anything of the user's sees."""

    __slots__ = ("_mute", "_plain")

    def __init__(self, mute: Any) -> None:
        self._mute = mute
        self._plain = plain_torch()

    def __enter__(self) -> None:
        self._mute(1)
        self._plain.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._plain.__exit__(None, None, None)
        self._mute(-1)


class PendingNumber:
    """A scalar tensor as it is now; that of a GPU is known when the GPU has got there."""

    __slots__ = ("_ask", "_value")

    def __init__(self, value: float | None, ask: Callable[[], float | None] | None = None) -> None:
        """It is `value`, or what `ask` returns once that is a number."""
        self._value = value
        self._ask = ask

    @classmethod
    def of(cls, tensor: Tensor) -> PendingNumber:
        """The one element of a tensor."""
        kind = kind_of(tensor)
        if kind is None:
            return cls(only_number(tensor))
        return cls(None, functools.partial(_arrived, kind.send(tensor)))

    @property
    def value(self) -> float | None:
        """The number, if it is known by now."""
        if self._ask is not None and (value := self._ask()) is not None:
            self._value, self._ask = value, None
        return self._value


def _arrived(number: Arriving) -> float | None:
    host = number.get()
    return None if host is None else only_number(host)


StepNumber = float | PendingNumber


@dataclass(slots=True)
class _Late:
    """A step that has ended, some of whose numbers may be on their way."""

    step: int
    number: int
    facts: dict[str, str]
    losses: list[StepNumber]
    norm: StepNumber | None
    is_written: bool = False


class StepFactsRecorder:
    """Collects the facts of the step under way and writes them to the ring."""

    def __init__(self, ring: Ring, writer: Any) -> None:
        self._ring = ring
        self._mute = writer.mute
        self._native = ring.native
        """Does what it can of the following without Python."""
        self._number = 0
        self._began = time.perf_counter()
        self._evaluated = 0.0
        self._step = 0
        self._facts: dict[str, str] = {}
        """As JSON."""
        self._described: list[str] = []
        """The tensors of the batch, as JSON."""
        self._resident = "0"
        self._resident_at = -_RESIDENT_S
        self._losses: list[StepNumber] = []
        self._norm: StepNumber | None = None
        self._waits = False
        """True if numbers of the step under way are on their way."""
        self._late: list[_Late] = []
        self.uses_cuda = False
        """True once there is any state of a GPU; asking for it would make some."""
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.batch: list[tuple[str, Tensor]] = []
        """The tensors of the last batch, kept until the next."""

    def quietly(self) -> _Quietly:
        """Tensor code of ours: nobody sees it."""
        return _Quietly(self._mute)

    def begin(self, step: int) -> None:
        """Begin the facts of a step."""
        self._ring["step"] = self._step = step
        self._facts = {"step": str(step), "time": f"{time.time():.3f}"}
        self._losses, self._norm, self._waits = [], None, False
        self._began = time.perf_counter()
        self._look_for_cuda()

    def _look_for_cuda(self) -> None:
        self.uses_cuda = self.uses_cuda or bool(torch.cuda.is_initialized())

    def add_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the batch that a network is called with."""
        self._look_for_cuda()
        if self._native is not None and "batch" not in self._facts:
            place = self._step, self._number
            found = self._native.note_call(
                *place, args, kwargs, self.batch, self._facts, self.uses_cuda
            )
            if found is not None:
                self.batch, self._described = found
                self._ring.remember_step(self._step, self._number, self._facts)
                return
        self.add_batch(arguments(args, kwargs))

    def add_evaluated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a batch of an evaluation, which may be one of thousands in a step."""
        now = time.perf_counter()
        if now - self._evaluated >= _EVALUATED_S:
            self.add_call(args, kwargs)
            self._evaluated = now

    def add_batch(self, tensors: Sequence[tuple[str, Tensor]]) -> None:
        """Note a batch at once, for it may be what the step dies of."""
        new = [
            (name, tensor)
            for name, tensor in tensors[:_MOST_TENSORS]
            if tensor.grad_fn is None and not any(tensor is other for _, other in self.batch)
        ]
        if not new:
            return
        begins = "batch" not in self._facts
        if begins or len(self.batch) + len(new) > _MOST_TENSORS:
            self.batch, self._described = [], []
        self.batch += new
        if begins:
            self._put_random()
        self._described.append(self._descriptions(new))
        self._put_values()
        self._facts["batch"] = f"[{','.join(self._described)}]"
        self._ring.put_step(self._step, self._number, self._facts)

    def _descriptions(self, new: list[tuple[str, Tensor]]) -> str:
        text: str | None = None if self._native is None else self._native.describe(new)
        if text is None:
            with self.quietly():
                text = ",".join([_description(name, tensor) for name, tensor in new])
        return text

    def _put_values(self) -> None:
        if self._native is not None and self._native.put_batch(self._step, self.batch):
            return
        with self.quietly():
            kept = [(n, t) for n, t in self.batch if _is_plain(t)]
            while not self._put("batch", kept) and kept:
                kept.pop()

    def _put(self, blob: str, tensors: Sequence[tuple[str, Tensor]]) -> bool:
        headers = ", ".join(_header_text(n, t.dtype, t.shape) for n, t in tensors)
        about = f'{{"step": {self._step}, "tensors": [{headers}]}}'
        parts = [(each.data_ptr(), each.nbytes) for _, each in tensors]
        return self._ring.put_blob(blob, about.encode(), parts)

    def _put_random(self) -> None:
        """Write the states of torch's generators; those of others take too long."""
        if self._native is not None and self._native.put_random(self._step, self.uses_cuda):
            return
        with self.quietly():
            states = [("torch", torch.get_rng_state())]
            if self.uses_cuda and not torch.cuda.is_current_stream_capturing():
                states.append(("cuda", torch.cuda.get_rng_state()))
            self._put("random", states)

    def add_losses(self, roots: Sequence[Any]) -> None:
        """Note the losses that a backward begins at."""
        for root in roots:
            found = self._number_of(root)
            if found is not None:
                self._losses.append(found)

    def add_norm(self, norm: Any) -> None:
        """Note the norm of all gradients, which the script has computed to clip them."""
        found = self._number_of(norm)
        if found is not None:
            self._norm = found

    def _number_of(self, given: Any) -> StepNumber | None:
        """The element of a tensor that has only one; None if this is another or none."""
        if not isinstance(given, Tensor):
            return None
        if self._native is not None:
            value: float | None = self._native.number(given)
            if value is not None:
                return value
            sent = self._native.send_number(given) if self.uses_cuda else None
            if sent is not None:
                self._waits = True
                return PendingNumber(None, functools.partial(self._native.arrived, sent))
        with self.quietly():
            if given.numel() == 1 and given.layout == torch.strided:
                self._waits = True
                return PendingNumber.of(given)
        return None

    def add_rates(self, optimizer: Any) -> None:
        """Note the learning rates of an optimizer that is about to step."""
        groups = optimizer.param_groups[:8]
        rates = [rate for each in groups if isinstance(rate := each.get("lr"), (int, float))]
        if rates:
            self._facts["lr"] = _rates_text(tuple(rates))

    def end(self) -> None:
        """Write the facts of the step, which is over."""
        facts, losses, norm = self._facts, self._losses, self._norm
        now = time.perf_counter()
        facts["seconds"] = f"{now - self._began:.6f}"
        if now - self._resident_at >= _RESIDENT_S:
            self._resident = str(int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE)
            self._resident_at = now
        facts["rss"] = self._resident
        if self.uses_cuda and (held := self._device_memory()) is not None:
            facts["allocated"], facts["peak"] = map(str, held)
        if self._late:
            self._late = [each for each in self._late if not self._settle(each)]
        if self._waits:
            late = _Late(self._step, self._number, facts, losses, norm)
            if not self._settle(late):
                self._late.append(late)
        else:
            _add_numbers(facts, losses, norm)  # type: ignore[arg-type]  # which are known
            self._ring.put_step(self._step, self._number, facts)
        self._number += 1

    def _device_memory(self) -> tuple[int, int] | None:
        """The bytes that tensors have on the GPU, now and at most; an allocator may not tell."""
        found: tuple[int, int] | None = None
        if self._native is not None:
            found = self._native.device_memory()
        if found is None:
            with contextlib.suppress(RuntimeError):
                held = torch.cuda.memory.memory_stats_as_nested_dict()["allocated_bytes"]["all"]
                found = held["current"], held["peak"]
        return found

    def _settle(self, late: _Late) -> bool:
        """Write the facts of a step that has ended; returns whether all of them are known.

        A GPU may be steps behind with its numbers; without them they are written once.
        """
        losses = [_known(loss) for loss in late.losses]
        norm = _known(late.norm)
        is_whole = None not in losses and (late.norm is None or norm is not None)
        _add_numbers(late.facts, losses, norm)
        if is_whole or not late.is_written:
            self._ring.put_step(late.step, late.number, late.facts)
            late.is_written = True
        return is_whole or late.number + _PATIENCE < self._number

    def close(self) -> None:
        """Let go of everything."""
        self.batch = []
        os.close(self._statm)


def _is_plain(tensor: Tensor) -> bool:
    """Tell whether the values can be copied as they lie."""
    on_cpu = tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not on_cpu or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return False
    if not tensor.nbytes:
        return True
    try:  # its memory may have been given back, or be another's
        room = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.itemsize
        return tensor.nbytes <= room and bool(tensor.data_ptr())
    except (NotImplementedError, RuntimeError):
        return False


def _add_numbers(facts: dict[str, str], losses: Sequence[float | None], norm: float | None) -> None:
    if losses:
        facts["loss"] = _text(losses)
    if norm is not None:
        facts["gradient_norm"] = _number_text(norm)


def _known(number: StepNumber | None) -> float | None:
    """Return a number if it is known by now."""
    return number.value if isinstance(number, PendingNumber) else number


def _text(numbers: Sequence[float | None]) -> str:
    """One number as JSON, or a list of several."""
    if len(numbers) == 1:
        return _number_text(numbers[0])
    return f"[{','.join(map(_number_text, numbers))}]"


def _number_text(number: float | None) -> str:
    if number is None or not math.isfinite(number):
        return json.dumps(number)
    return repr(number)


@functools.lru_cache(64)
def _rates_text(rates: tuple[float, ...]) -> str:
    """Learning rates as JSON, which most steps need again."""
    found = [float(rate) for rate in rates]
    return _text(found if len(set(found)) > 1 else found[:1])


@functools.lru_cache(256)
def _header_text(name: str, dtype: torch.dtype, shape: torch.Size) -> str:
    about = {"name": name, "dtype": str(dtype).removeprefix("torch."), "shape": list(shape)}
    return json.dumps(about, separators=(",", ":"))


def _description(name: str, tensor: Tensor) -> str:
    """A tensor of a batch as JSON."""
    text = _header_text(name, tensor.dtype, tensor.shape)
    if _is_plain(tensor):
        return f'{text[:-1]},"digest":"{_digest(tensor.data_ptr(), tensor.nbytes):08x}"}}'
    if tensor.device.type != "cpu":
        return f'{text[:-1]},"device":"{tensor.device}"}}'
    return text


def _digest(address: int, size: int) -> int:
    """The checksum of both ends of a stretch of memory."""
    first = min(size, _DIGEST_BYTES)
    checksum = zlib.crc32(_memory(address, first))
    last = min(size - first, _DIGEST_BYTES)
    return zlib.crc32(_memory(address + size - last, last), checksum) if last else checksum


def _memory(address: int, size: int) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * size).from_address(address)
