"""Rows of CUDA tensors with torch operators, where Triton is missing: slower, nothing waits."""

from __future__ import annotations

from array import array
from typing import Any

from opscope.stats.cuda.forms import BYTE, COMPLEX, DOUBLE, INT, OUT_BYTES, UINT64, ElementForm
from opscope.stats.cuda.layout import Runs
from opscope.stats.cuda.ring import HostMemory, Streams
from opscope.stats.cuda.ticket import Finished
from opscope.stats.record import FLOAT
from opscope.stats.record import INT as INT_KIND
from opscope.stats.record import UINT as UINT_KIND

_CHUNK = 1 << 22
"""Elements made float64 at a time."""


class FallbackRows:
    """Reads tensors of one device when they are submitted; a flush only brings the rows home."""

    def __init__(self, index: int, streams: Streams) -> None:
        self._index = index
        self._streams = streams
        self._rows: dict[int, list[Any]] = {}
        self._addresses: dict[int, array[int]] = {}
        self.held: dict[int, Any] = {}
        self.device_bytes = 0

    def submit(
        self,
        tensor: Any,
        form: ElementForm,
        count: int,
        times: int,
        address: int,
        runs: Runs | None = None,
    ) -> bool:
        """Compute the row of a tensor; false while a graph is captured."""
        import torch

        if self._streams.capturing():
            return False
        stream = self._streams.current(self._index)
        with torch.no_grad():
            dense = tensor.contiguous() if runs is not None else tensor
            row = row_tensor(_in_memory_order(dense, count), form, times)
        self._rows.setdefault(stream, []).append(row)
        self._addresses.setdefault(stream, array("q")).append(address)
        return True

    def launch(self, batch: Any) -> None:
        """Nothing waits."""

    def gather(self, on: bool) -> None:
        """Nothing waits."""

    def flush(self) -> Finished | None:
        """Bring the rows to the host: one copy for each stream they were computed on."""
        import torch

        if not self._rows:
            return None
        streams, side = self._streams, self._streams.side
        pages, addresses = [], array("q")
        for stream, rows in self._rows.items():
            page = streams.pinned(len(rows) * OUT_BYTES // 8)
            with streams.using(stream):
                page.copy_(torch.cat(rows), non_blocking=True)
            streams.join(side, stream)
            pages.append(page)
            addresses.extend(self._addresses[stream])
        self._rows, self._addresses = {}, {}
        return Finished(streams.record(side), pages, addresses, HostMemory(streams.pinned, 0))


def _in_memory_order(tensor: Any, count: int) -> Any:
    return tensor.detach().as_strided((count,), (1,), tensor.storage_offset())


def row_tensor(flat: Any, form: ElementForm, times: int) -> Any:
    """The finished row of a flat tensor, as the kernels write it: 16 int64 numbers."""
    if form.code in (INT, UINT64, BYTE):
        return _int_row(flat, form, times)
    return _float_row(flat, form, times)


def _float_row(flat: Any, form: ElementForm, times: int) -> Any:
    import torch

    inf = float("inf")
    parts = [_float_part(chunk, form) for chunk in flat.split(_CHUNK)]
    lows, highs, means, absolutes, spreads, finites, *counts = map(
        torch.stack, zip(*parts, strict=True)
    )
    nan, up, down, zero, negative = (each.sum() for each in counts)
    finite = finites.sum()
    number = finite.clamp(min=1).double()
    share = finites / number
    mean = (means * share).sum()
    absolute = (absolutes * share).sum()
    unit = torch.maximum(spreads.max(), means.abs().max())
    unit = torch.where(unit > 0, unit, 1.0)
    spreads = (spreads / unit).square()
    squares = (share * (spreads + (means / unit).square())).sum()
    away = (share * (spreads + ((means - mean) / unit).square())).sum()
    low, high = lows.min(), highs.max()
    same = low == high
    mean = torch.where(same, low, mean.clamp(low, high))
    absolute = torch.where(same, low.abs(), absolute)
    l2 = torch.where(same, low.abs() * number.sqrt(), unit * (squares * number).sqrt())
    std = torch.where(same, 0.0, unit * away.sqrt())
    moments = torch.stack((mean, absolute, l2 * times**0.5, std))
    moments = torch.where(finite > 0, moments, torch.nan)
    ends = torch.stack((low, high))
    ends = torch.where((low == inf) & (up == 0), torch.nan, ends)
    count = flat.numel()
    floats = torch.cat((ends, moments)).view(torch.int64)
    rest = [nan, up, down, zero, negative, count - nan - zero - negative]
    return _row(FLOAT, count, floats, torch.stack(rest), times)


def _float_part(chunk: Any, form: ElementForm) -> tuple[Any, ...]:
    """Low, high, mean, mean |x|, std; finite, NaN, ±Inf, zero, negative."""
    import torch

    inf = float("inf")
    x = _modulus(chunk) if form.code == COMPLEX else chunk.double()
    finite = torch.isfinite(x)
    number = finite.sum().clamp(min=1)
    nan = torch.isnan(x)
    safe = torch.where(finite, x, 0.0)
    peak = safe.abs().max() if form.code in (DOUBLE, COMPLEX) else None
    scale = 1.0 if peak is None else torch.exp2(-torch.frexp(peak).exponent.clamp(-1000, 1000))
    safe = safe * scale
    mean = safe.sum() / number
    away = torch.where(finite, safe - mean, 0.0)
    away = torch.where(finite, away - away.sum() / number, 0.0)
    return (
        torch.where(nan, inf, x).min(),
        torch.where(nan, -inf, x).max(),
        mean / scale,
        safe.abs().sum() / number / scale,
        (away.square().sum() / number).sqrt() / scale,
        finite.sum(),
        nan.sum(),
        (x == inf).sum(),
        (x == -inf).sum(),
        (x == 0).sum(),
        (x < 0).sum(),
    )


def _modulus(chunk: Any) -> Any:
    import torch

    parts = torch.view_as_real(chunk.resolve_conj()).double()
    value = torch.hypot(parts[:, 0], parts[:, 1])
    return torch.where(torch.isinf(parts).any(1), torch.inf, value)


def _int_row(flat: Any, form: ElementForm, times: int) -> Any:
    import torch

    unsigned = form.code == UINT64
    flip = -(2**63)
    flat = _int64(flat)
    parts = []
    for chunk in flat.split(_CHUNK):
        ordered = chunk ^ flip if unsigned else chunk
        x = chunk.double()
        if unsigned:
            x = torch.where(chunk < 0, x + 2.0**64, x)
        whole_abs = chunk if unsigned else chunk.abs()
        ends = ordered.min(), ordered.max()
        parts.append(
            (*ends, x.sum(), x.abs().sum(), x.square().sum(), chunk.sum(), whole_abs.sum(),
             (x == 0).sum(), (x < 0).sum())
        )  # fmt: skip
    lows, highs, *sums = map(torch.stack, zip(*parts, strict=True))
    total, absolute, squares, whole, whole_abs, zero, negative = (each.sum() for each in sums)
    low, high = lows.min(), highs.max()
    count = flat.numel()
    mean = torch.where(total.abs() < 2.0**62, whole.double(), total) / count
    away = torch.stack([_away(chunk, mean, unsigned) for chunk in flat.split(_CHUNK)]).sum()
    std = torch.where(low == high, 0.0, (away / count).sqrt())
    mean_abs = torch.where(absolute < 2.0**62, whole_abs.double(), absolute) / count
    moments = torch.stack((mean, mean_abs, (squares * times).sqrt(), std)).view(torch.int64)
    ends = torch.stack((low, high))
    kind: Any = INT_KIND
    if unsigned:
        ends = ends ^ flip
        kind = torch.where(ends[1] < 0, UINT_KIND, INT_KIND)
    none = torch.zeros_like(zero)
    rest = torch.stack((none, none, none, zero, negative, count - zero - negative))
    return _row(kind, count, torch.cat((ends, moments)), rest, times)


def _away(chunk: Any, mean: Any, unsigned: bool) -> Any:
    import torch

    x = chunk.double()
    if unsigned:
        x = torch.where(chunk < 0, x + 2.0**64, x)
    return (x - mean).square().sum()


def _int64(flat: Any) -> Any:
    """Integers of any kind as int64; those of uint64 keep their bits."""
    import torch

    if flat.dtype is torch.uint64:
        return flat.view(torch.int64)
    for small, wide, mask in (("uint16", "int16", 0xFFFF), ("uint32", "int32", 0xFFFFFFFF)):
        if flat.dtype is getattr(torch, small):
            return flat.view(getattr(torch, wide)).long() & mask
    if flat.dtype not in (torch.bool, torch.uint8) and flat.element_size() == 1:
        name = str(flat.dtype)
        return flat.view(torch.uint8 if "uint" in name else torch.int8).long()
    return flat.long()


def _row(kind: Any, count: int, numbers: Any, counts: Any, times: int) -> Any:
    """Kind, count, six numbers and six counts, then nothing."""
    import torch

    row = torch.zeros(OUT_BYTES // 8, dtype=torch.int64, device=numbers.device)
    row[0] = kind
    row[1] = count * times
    row[2:8] = numbers
    row[8:14] = counts * times
    return row
