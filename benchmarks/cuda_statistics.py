"""Statistics on a GPU: how fast memory is read, and what a submit and a flush cost the host.

    python benchmarks/cuda_statistics.py [--tune] [--json FILE]

GB/s count the bytes of the tensor, in rows of launches timed with events, each on the next of
several tensors that together exceed the L2 cache. `copy` counts bytes read and written.
Microseconds are of the host, with the device idle or far behind. `--tune` tries other shapes of the
kernel; there each tensor is read right after it was written, as in training, and the microseconds
are what reading adds to writing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from opscope.stats.cuda import forms, launch, parts_kernel
from opscope.stats.cuda.digest import digest
from opscope.stats.cuda.engine import CudaRows
from opscope.stats.cuda.pair import pair_tensor
from opscope.stats.record import ROW_BYTES, ROW_DTYPE

RECORDS = np.zeros(4096, ROW_DTYPE)
RESULTS: list[dict[str, Any]] = []


def address(place: int) -> int:
    """Of one of the records."""
    return RECORDS.ctypes.data + ROW_BYTES * place


def note(what: str, **numbers: Any) -> None:
    """Print a line and keep it."""
    RESULTS.append({"what": what, **numbers})
    shown = "  ".join(f"{name} {value}" for name, value in numbers.items())
    print(f"{what:34} {shown}", flush=True)


def device_us(run: Callable[[int], object], rounds: int = 20, host: int = 100) -> float:
    """Time on the device of `run(i)` among others like it: the median of five rows of them.

    Every one takes less than `host` µs of the host.
    """
    times = []
    for _ in range(6):
        torch.cuda.synchronize()
        torch.cuda._sleep(4_000_000 + 2000 * host * rounds)  # the device never waits for the host
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for number in range(rounds):
            run(number)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / rounds * 1000)
    return statistics.median(times[1:])


def tensors(dtype: torch.dtype, size: int) -> list[torch.Tensor]:
    """Tensors of `size` bytes that together exceed the cache several times."""
    count = max(2, min(64, (512 << 20) // size))
    numel = size // dtype.itemsize
    made = []
    for _ in range(count):
        if dtype.is_floating_point:
            made.append(torch.randn(numel, device="cuda").to(dtype))
        else:
            made.append(torch.randint(0, 2, (numel,), device="cuda").to(dtype))
    return made


def parts_caller(form: forms.ElementForm, **changes: int) -> Callable[[torch.Tensor], None]:
    """Launches the kernel of partial rows, perhaps of another shape than usual."""
    threads = changes.get("threads", forms.THREADS)
    unroll = changes.get("unroll", forms.UNROLL)
    limit = changes.get("programs", forms.PROGRAMS)
    group = threads * unroll * 16 // form.size
    constants = {
        "load": getattr(parts_kernel.tl, form.load),
        "form": form.code,
        "group": group,
        "aligned": True,
        "precise": bool(changes.get("precise", 1)),
        "limit": limit,
        "threads": threads,
        "unroll": unroll,
        "ptx": True,
    }
    options = forms.registers(form)
    if "maxnreg" in changes:
        options = {"maxnreg": changes["maxnreg"]} if changes["maxnreg"] else {}
    k = launch.compiled(parts_kernel.parts, 6, constants, threads // 32, **options)
    parts = torch.empty(2 * limit * forms.SLOTS, dtype=torch.int64, device="cuda")
    head = torch.empty(8, dtype=torch.int64, device="cuda")

    def call(tensor: torch.Tensor) -> None:
        count = tensor.numel()
        full = count // group
        whole = (full + 7) // 8 if full <= 64 else full
        grid = min(whole, limit + limit // 2 * (full > 2048)) + (count > full * group)
        k.launch(
            grid, 1, 1, torch._C._cuda_getCurrentRawStream(0), k.function, k.cooperative, k.pdl,
            None, None, k.packed, None, None, None,
            0, tensor.data_ptr(), count, parts.data_ptr(), head.data_ptr(), 1, *[None] * 9,
        )  # fmt: skip

    return call


def ceilings() -> None:
    """What plain operators reach."""
    source = torch.randn(256 << 20, device="cuda")
    target = torch.empty_like(source)
    us = device_us(lambda _: target.copy_(source))
    note("copy 1 GiB", gbps=round(2 * source.nbytes / us / 1000))
    for dtype in (torch.float32, torch.bfloat16):
        wide = source.to(dtype)
        for name in ("sum", "amax"):
            us = device_us(lambda _, w=wide, n=name: getattr(w, n)())
            note(f"{name} {dtype} 256 Mi", gbps=round(wide.nbytes / us / 1000))


def tune() -> None:
    """The kernel in several shapes."""
    shapes = [
        dict(zip(("threads", "unroll", "maxnreg", "programs"), shape, strict=True))
        for shape in itertools.chain(
            itertools.product((256,), (4,), (0, 80), (264, 396, 528)),
            itertools.product((256,), (2,), (0,), (528,)),
            itertools.product((128,), (4,), (0,), (528, 1056)),
            itertools.product((512,), (4,), (0,), (264,)),
        )
    ]
    for name in ("bfloat16", "float32"):
        form = forms.FORMS[name]
        sets = {
            size: tensors(getattr(torch, name), size)
            for size in (2 << 20, 12 << 20, 24 << 20, 48 << 20, 256 << 20)
        }
        writing = {
            size: device_us(lambda i, m=made: write(m, i), host=20) for size, made in sets.items()
        }
        for shape in shapes:
            call = parts_caller(form, **shape)
            added = {}
            for size, made in sets.items():
                both = device_us(lambda i, m=made, c=call: c(write(m, i)), host=40)
                added[f"{size >> 20}MiB"] = round(both - writing[size], 1)
            note(f"tune {name}", **shape, **added)


def write(made: list[torch.Tensor], number: int) -> torch.Tensor:
    """Fill one of the tensors with the elements of the next."""
    place = number % (len(made) - 1)
    return made[place].copy_(made[place + 1])


def kernel_rates() -> None:
    """GB/s of the kernel as it is used, by dtype, size and precision."""
    names = ("float32", "bfloat16", "float16", "uint8", "float8_e4m3fn", "float64", "int64")
    for name in (*names, "int32", "complex64"):
        form = forms.FORMS[name]
        rates = {}
        for precise in (1, 0) if name in ("float32", "bfloat16") else (1,):
            call = parts_caller(form, precise=precise)
            for size in (2 << 20, 12 << 20, 64 << 20, 256 << 20):
                made = tensors(getattr(torch, name), size)
                us = device_us(lambda i, m=made, c=call: c(m[i % len(m)]))
                label = f"{size >> 20}MiB" + ("" if precise else "_low")
                rates[label] = f"{round(made[0].nbytes / us / 1000)} ({us:.1f}us)"
        note(f"kernel {name}", **rates)
    gapped()
    holed = tensors(torch.bfloat16, 64 << 20)
    call = parts_caller(forms.FORMS["bfloat16"])
    for tensor in holed:
        tensor[5] = float("nan")
    us = device_us(lambda i: call(holed[i % len(holed)]))
    note("kernel bfloat16, one NaN, 64 MiB", gbps=round(holed[0].nbytes / us / 1000))
    for tensor in holed:
        tensor[::1000] = float("nan")
    us = device_us(lambda i: call(holed[i % len(holed)]))
    note("kernel bfloat16, NaN everywhere", gbps=round(holed[0].nbytes / us / 1000))


def gapped() -> None:
    """A third of the columns, as a query among keys and values is."""
    for dtype in (torch.bfloat16, torch.float32):
        wide = torch.randn(8192, 3 * 768, device="cuda").to(dtype)
        engine = CudaRows()
        for name, part in (("gaps", wide[:, :768]), ("odd gaps", wide[:, 1:769])):
            us = device_us(lambda _, p=part, e=engine: e.submit(p, address(0)))
            ticket = engine.flush()
            ticket.wait()
            note(f"{name} {dtype} {part.nbytes >> 20} MiB", us=round(us, 1))


def host_us(run: Callable[[], None], count: int, behind: bool) -> float:
    """Time on the host per call, in µs: with an idle device, or one that is far behind."""
    torch.cuda.synchronize()
    if behind:
        torch.cuda._sleep(400_000_000)
    began = time.perf_counter()
    run()
    taken = time.perf_counter() - began
    torch.cuda.synchronize()
    return taken / count * 1e6


def host_costs() -> None:
    """What the thread that trains pays."""
    engine = CudaRows()
    large = torch.randn(1 << 20, device="cuda")
    small = [torch.randn(768, device="cuda") for _ in range(1000)]
    other = torch.randn(512, 64, device="cuda").t()

    def submit(made: list[torch.Tensor]) -> None:
        for place, tensor in enumerate(made):
            engine.submit(tensor, address(place))

    def done() -> None:
        ticket = engine.flush()
        ticket.wait()
        ticket.deliver()

    cases = {"large": [large] * 500, "small": small, "small, transposed": [other] * 1000}
    for name, made in cases.items():
        for behind in (False, True):
            times = []
            for _ in range(7):
                times.append(host_us(lambda m=made: submit(m), len(made), behind))
                done()
            note(
                f"submit {name}" + (", device behind" if behind else ""),
                us=round(statistics.median(times), 2), best=round(min(times), 2),
            )  # fmt: skip
    flushes, deliveries, ends = [], [], []
    for _ in range(9):
        submit(small + [large] * 1000)
        torch.cuda.synchronize()
        began = time.perf_counter()
        ticket = engine.flush()
        flushes.append((time.perf_counter() - began) * 1e6)
        ticket.wait()
        ends.append((time.perf_counter() - began) * 1e6)
        began = time.perf_counter()
        ticket.deliver()
        deliveries.append((time.perf_counter() - began) * 1e6)
    note(
        "flush of 2000 rows", us=round(statistics.median(flushes), 1),
        ready_after_us=round(statistics.median(ends), 1),
        deliver_us=round(statistics.median(deliveries), 1), device_mib=engine.device_bytes >> 20,
    )  # fmt: skip
    index = torch.cuda.current_device()
    calls = {
        "current stream": lambda: torch._C._cuda_getCurrentRawStream(index),
        "capturing": torch._C._cuda_isCurrentStreamCapturing,
        "data_ptr": large.data_ptr,
        "untyped_storage": large.untyped_storage,
    }
    note("calls, us each", **{name: _call_us(call) for name, call in calls.items()})
    empty = [host_us(lambda: (engine.before_write(large), None)[1], 1, False) for _ in range(50)]
    note("before_write, nothing held", us=round(min(empty), 2))
    began = time.perf_counter()
    for _ in range(1000):
        torch.add(other, 1)
    note("torch.add of 32 Ki", us=round((time.perf_counter() - began) * 1e3, 2))
    torch.cuda.synchronize()


def _call_us(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(2000):
        call()
    return round((time.perf_counter() - began) * 500, 2)


def batches() -> None:
    """Time on the device of batches of small tensors."""
    for numel, count in ((768, 256), (30_000, 256), (262_144, 64)):
        made = [torch.randn(numel, device="cuda") for _ in range(count)]
        engine = CudaRows()

        def run(_: int, made: list[torch.Tensor] = made, engine: CudaRows = engine) -> None:
            for place, tensor in enumerate(made):
                engine.submit(tensor, address(place))
            next(iter(engine._devices.values())).launch_all()  # type: ignore[union-attr]

        us = device_us(run, 4, host=4000)
        ticket = engine.flush()
        ticket.wait()
        ticket.deliver()
        note(f"batch of {count} x {numel} float32", us=round(us, 1))


def others() -> None:
    """The two-tensor kernel and the digest."""
    a, b = tensors(torch.float32, 256 << 20)[:2]
    us = device_us(lambda _: pair_tensor(a, b, 0.1, 0.1))
    note("pair float32 2 x 256 MiB", gbps=round(2 * a.nbytes / us / 1000), us=round(us))
    us = device_us(lambda _: digest(a))
    note("digest 256 MiB", gbps=round(a.nbytes / us / 1000), us=round(us))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tune", action="store_true", help="try other shapes of the kernel, and nothing else"
    )
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    name = torch.cuda.get_device_name()
    note("machine", gpu=name, torch=torch.__version__, triton=parts_kernel.triton.__version__)
    if options.tune:
        tune()
    else:
        ceilings()
        host_costs()
        batches()
        kernel_rates()
        others()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(RESULTS, file, indent=1)


if __name__ == "__main__":
    main()
