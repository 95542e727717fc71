"""How close the statistics of a tensor come to reading it once: one thread, one run.

    python benchmarks/statistics_bandwidth.py [--all] [--elements 33554432]

The plain read is `torch.sum` of the same memory as float32, since how fast memory is depends on its
pages. Each line is bytes per second and the ratio to that read, the best of some rounds in process
time; both are measured in every round, so that a machine that slows down slows both. `--all` adds
the other instruction sets of this machine, NumPy, and naive torch operators (these two on fewer
elements).
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from opscope.stats import native_cpu
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import ROW_DTYPE
from opscope.stats.torch_values import to_numpy

Tensor = Any
Measure = Callable[[], object]

DTYPES = (
    *("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e8m0fnu", "complex64", "complex128", "int64", "int32", "int16", "int8"),
    *("uint64", "uint32", "uint16", "uint8", "bool"),
)
CUT = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "complex64")
"""Whose columns are cut off as well."""
DIFFERENT = 1 << 20
"""So many numbers are drawn, and then repeated."""
SMALL = (1, 64, 1024, 4096, 65536)
RECORD = np.zeros(1, ROW_DTYPE)
ADDRESS = RECORD.ctypes.data


def values(dtype: str, count: int) -> Tensor:
    """Numbers of both signs around zero, as activations and gradients are, again and again."""
    some = _some(dtype, min(count, DIFFERENT))
    return some.repeat(-(-count // DIFFERENT))[:count] if count > DIFFERENT else some


def _some(dtype: str, count: int) -> Tensor:
    generator, kind = torch.Generator().manual_seed(0), getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype == "float8_e8m0fnu":
        return torch.randint(100, 128, (count,), generator=generator).byte().view(kind)
    if "int" in dtype:
        low = 0 if dtype.startswith("u") else -100
        return torch.randint(low, 100, (count,), generator=generator).to(kind)
    if dtype.startswith("complex"):
        return torch.view_as_complex(torch.randn(count, 2, generator=generator)).to(kind)
    return torch.randn(count, generator=generator).to(kind)


def of_bytes(dtype: str, size: int) -> Tensor:
    """As many numbers as these bytes hold, which the caches do not."""
    return values(dtype, size // getattr(torch, dtype).itemsize)


def layouts(count: int) -> dict[str, Tensor]:
    """float32 in other arrangements than one after the other."""
    side = int(count**0.5)
    square = values("float32", side * side).reshape(side, side)
    nan = square.clone()
    nan.view(-1)[::1000] = float("nan")
    return {
        "transposed": square.t(),
        "every second element": square.view(-1)[::2],
        "short rows": square.view(-1, 16)[:, :10],
        "expanded": square[:, :1].expand(side, side),
        "a NaN in every block": nan,
        "mean 1000, std 1": square + 1000,
        "ones": torch.ones(side * side),
    }


def cut(dtype: str, size: int) -> Tensor:
    """A square matrix without its last columns: rows with gaps between them."""
    side = int((size / getattr(torch, dtype).itemsize) ** 0.5)
    return values(dtype, side * side).reshape(side, side)[:, : side - 7]


def naive(tensor: Tensor) -> list[float]:
    """The same numbers by torch operators, as one would write them."""
    tensor = tensor.abs() if tensor.is_complex() else tensor
    tensor = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.to(torch.float64)
    finite = tensor[torch.isfinite(tensor)].double()
    numbers = (
        *(tensor.amin(), tensor.amax(), finite.mean(), finite.abs().mean()),
        *(torch.linalg.vector_norm(finite), finite.std(correction=0), torch.isnan(tensor).sum()),
        *(torch.isposinf(tensor).sum(), torch.isneginf(tensor).sum()),
        *((tensor == 0).sum(), (tensor < 0).sum(), (tensor > 0).sum()),
    )
    return [number.item() for number in numbers]


def best(measures: dict[str, Measure], rounds: int) -> dict[str, float]:
    """The shortest process time of each, all of them in turn in each round."""
    times = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            began = time.process_time()
            measure()
            times[name] = min(times[name], time.process_time() - began)
    return times


def bandwidth(
    tensors: dict[str, Callable[[], Tensor]], compute: Callable[[Tensor], object], rounds: int
) -> None:
    """Print one line per tensor; each is made when it is needed."""
    for name, make in tensors.items():
        tensor = make()
        size = tensor.numel() * tensor.element_size()
        memory = torch.empty(0).set_(tensor.untyped_storage())
        times = best({"read": memory.sum, "row": lambda t=tensor: compute(t)}, rounds)
        plain = memory.numel() * 4 / times["read"]
        found = size / times["row"]
        print(
            f"  {name:24} {found / 1e9:6.2f} GB/s   {found / plain:6.1%} of {plain / 1e9:.1f} GB/s",
            flush=True,
        )


def latencies(compute: Callable[[Tensor], object], repeat: int) -> None:
    """Print what small tensors take."""
    for dtype in ("float32", "bfloat16", "int64"):
        took = []
        for count in SMALL:
            tensor = values(dtype, count)
            times = []
            for _ in range(7):
                began = time.process_time()
                for _ in range(repeat):
                    compute(tensor)
                times.append((time.process_time() - began) / repeat)
            took.append(f"{count}: {min(times) * 1e6:.2f}")
        print(f"  {dtype:10} µs by elements: {', '.join(took)}", flush=True)


def report(title: str, compute: Callable[[Tensor], object], count: int, quick: bool) -> None:
    """All figures of one implementation."""
    print(f"{title}: large tensors", flush=True)
    rounds = 15 if quick else 2
    plain = {dtype: partial(of_bytes, dtype, 4 * count) for dtype in DTYPES}
    columns = {f"{dtype}, columns cut": partial(cut, dtype, 4 * count) for dtype in CUT}
    others = {name: (lambda t=tensor: t) for name, tensor in layouts(count).items()}
    bandwidth(plain | columns | others, compute, rounds)
    print(f"{title}: small tensors", flush=True)
    latencies(compute, 2000 if quick else 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="NumPy, torch operators, other variants")
    parser.add_argument("--elements", type=int, default=32 << 20, help="of float32")
    options = parser.parse_args()
    torch.set_num_threads(1)
    fill, library = native_cpu.filler(), native_cpu.load()
    found = native_cpu.features()
    report(f"native ({found})", lambda t: fill(t, ADDRESS, 1), options.elements, quick=True)
    if not options.all:
        return
    for variant in ("avx2", "baseline"):
        if library and variant != found and not library.opscope_force(variant.encode()):
            forced = ctypes.string_at(library.opscope_features()).decode()
            report(f"native ({forced})", lambda t: fill(t, ADDRESS, 1), options.elements, True)
    report("NumPy", lambda t: row_of(to_numpy(t)), options.elements // 16, quick=False)
    report("torch operators", naive, options.elements // 16, quick=False)


if __name__ == "__main__":
    main()
