"""Where the host's time goes in a step of `gpu_step.py`, by native function.

    PYTHONPATH=src python benchmarks/host_profile.py [--mode stats] [--device cpu] [--steps 60]

Every thread that runs operators is sampled at regular moments of the wall clock while a step's
Python code runs (not while the device is waited for). For each mode it prints the share of the
samples in which a function was on the stack, for opscope's own functions, and the functions that
were on top. It also prints what a system call, the clock and the interpreter's lock cost there.
"""

from __future__ import annotations

import argparse
import bisect
import ctypes
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from gpu_step import LARGE, SMALL, TINY, WARM, training
from watching import WATCHES, prepare, quiet

from opscope.capture import hook

DEPTH = 40
PERIOD_NS = 400_000


class Sample(ctypes.Structure):
    _fields_ = (
        ("thread", ctypes.c_int64),
        ("depth", ctypes.c_int64),
        ("frames", ctypes.c_void_p * DEPTH),
    )


class Symbol(ctypes.Structure):
    """What dladdr says of an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_void_p),
    )


def build() -> Any:
    """The sampler."""
    library = Path(tempfile.mkdtemp()) / "sampler.so"
    source = Path(__file__).with_name("sampler.c")
    command = ["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-lrt"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.sampler_count.restype = ctypes.c_int64
    loaded.sampler_samples.restype = ctypes.POINTER(Sample)
    loaded.sampler_watch.argtypes = (ctypes.c_int, ctypes.c_long)
    return loaded


class Names:
    """Names of native functions by address."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._dladdr = ctypes.CDLL(None).dladdr
        self._dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(Symbol))
        self._local: dict[str, tuple[list[int], list[str]]] = {}

    def __call__(self, address: int) -> str:
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: int) -> str:
        symbol = Symbol()
        if not self._dladdr(address, ctypes.byref(symbol)):
            return "?"
        file = (symbol.file or b"?").decode()
        if "hook" in Path(file).name:
            starts, names = self._symbols(file)
            at = bisect.bisect_right(starts, address - (symbol.base or 0)) - 1
            return "hook: " + (names[at] if at >= 0 else "?")
        return f"{Path(file).name}: {(symbol.name or b'?').decode()}"

    def _symbols(self, file: str) -> tuple[list[int], list[str]]:
        if file not in self._local:
            shown = subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True)
            found = []
            for line in shown.stdout.splitlines():
                address, kind, name = [*line.split(maxsplit=2), "", ""][:3]
                if kind in ("t", "T", "w", "W"):
                    found.append((int(address, 16), name))
            found.sort()
            self._local[file] = ([f[0] for f in found], [f[1] for f in found])
        return self._local[file]


def demangled(names: list[str]) -> dict[str, str]:
    """C++ names as people write them, cut to a length."""
    text = "\n".join(name.partition(": ")[2] for name in names)
    shown = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=False)
    lines = shown.stdout.splitlines() if shown.returncode == 0 else text.splitlines()
    return {
        name: f"{name.partition(': ')[0]}: {line[:110]}"
        for name, line in zip(names, lines, strict=True)
    }


def profile(sampler: Any, step: Any, mode: str, steps: int, cuda: bool) -> dict[str, Any]:
    """Samples of the steps of one mode."""
    names = Names()
    hosts = []
    with quiet(), WATCHES[mode]() as end_step:
        for _ in range(2 * WARM):
            step()
            end_step()
        native = hook.load()
        before = counts(native)
        threads = working_threads()
        sampler.sampler_clear()
        for thread in threads:
            sampler.sampler_watch(thread, PERIOD_NS)
        for _ in range(steps):
            if cuda:
                torch.cuda.synchronize()
            began = time.perf_counter()
            sampler.sampler_enable(1)
            step()
            sampler.sampler_enable(0)
            hosts.append(time.perf_counter() - began)
            end_step()
        sampler.sampler_end()
        after = counts(native)
    hosts.sort()
    taken = sampler.sampler_samples()[: sampler.sampler_count()]
    return {
        "mode": mode,
        "host_ms": hosts[len(hosts) // 2] * 1e3,
        "native": (after[0] - before[0]) / steps,
        "python": (after[1] - before[1]) / steps,
        **summary(taken, names, threading.get_native_id()),
    }


def working_threads() -> list[int]:
    """This thread, and those that autograd runs backward in."""
    backward = [
        int(task.name)
        for task in Path("/proc/self/task").iterdir()
        if (task / "comm").read_text().startswith("pt_autograd")
    ]
    return [threading.get_native_id(), *backward]


def counts(native: Any) -> tuple[int, int]:
    """Calls handled natively and left to Python, if there is a hook."""
    try:
        found = native.counts()
    except (AttributeError, RuntimeError):
        return 0, 0
    return found[0], found[1]


def summary(taken: list[Sample], names: Names, main: int) -> dict[str, Any]:
    """Shares of what was on the stack and on top of it, over all samples of working threads."""
    inclusive: Counter[str] = Counter()
    top: Counter[str] = Counter()
    under: Counter[str] = Counter()
    by_thread: Counter[str] = Counter()
    stacks: Counter[tuple[str, ...]] = Counter()
    total = 0
    for sample in taken:
        frames = [names(a) for a in sample.frames[2 : sample.depth] if a]  # without the handler
        if not frames:
            continue
        if any("ReadyQueue3pop" in f or "Future4wait" in f for f in frames):
            continue  # waits for the other thread
        total += 1
        stacks[tuple(frames[:24])] += 1
        by_thread["main" if sample.thread == main else "other"] += 1
        top[frames[0]] += 1
        inclusive.update(set(frames))
        first_hook = next((i for i, f in enumerate(frames) if f.startswith("hook")), None)
        if first_hook:
            under[f"{frames[first_hook]} → {frames[first_hook - 1]}"] += 1
    readable = demangled(list({*top, *inclusive}))
    share = lambda n: round(100 * n / max(total, 1), 1)  # noqa: E731
    return {
        "samples": total,
        "threads": dict(by_thread),
        "top": [(share(n), readable[f]) for f, n in top.most_common(45)],
        "inclusive": [(share(n), readable[f]) for f, n in inclusive.most_common(110)],
        "hook": [
            (share(n), readable[f]) for f, n in inclusive.most_common() if f.startswith("hook")
        ],
        "called_by_hook": [(share(n), f[:200]) for f, n in under.most_common(40)],
        "stacks": [(n, list(stack)) for stack, n in stacks.most_common(4000)],
    }


def costs(sampler: Any) -> dict[str, float]:
    """Nanoseconds of basic things on this host."""
    out = (ctypes.c_double * 5)()
    functions = [
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
        for name in ("PyGILState_Ensure", "PyGILState_Release")
    ]
    sampler.costs(*functions, out)
    names = ("system call", "clock", "interpreter lock", "mutex", "signal to nobody")
    return {name: round(value, 1) for name, value in zip(names, out, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mode", action="append", choices=list(WATCHES))
    parser.add_argument("--small", action="store_true", help="batch 1 x 256 instead of 8 x 1024")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", help="also write everything to this file")
    args = parser.parse_args()
    sampler = build()
    with quiet():
        facts = prepare()
    print(json.dumps({**facts, "ns": costs(sampler)}), flush=True)
    large, small = (LARGE, SMALL) if args.device == "cuda" else TINY
    step = training(small if args.small else large, args.device)
    found = []
    for mode in args.mode or ["plain", "capture", "stats"]:
        result = profile(sampler, step, mode, args.steps, args.device == "cuda")
        found.append(result)
        print(
            f"\n{mode}: {result['host_ms']:.1f} ms, {result['native']:.0f} operators native, "
            f"{result['python']:.0f} in Python; {result['samples']} samples {result['threads']}"
        )
        for title in ("hook", "called_by_hook", "top"):
            print(f"-- {title}")
            for share, name in result[title][:28]:
                print(f"{share:6.1f} %  {name[:150]}")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
