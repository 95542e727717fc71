"""A training step of a GPT-2-small on a GPU, plain and watched: time, memory, and where it goes.

    PYTHONPATH=src python benchmarks/gpu_step.py [--small | --both] [--json FILE]

12 layers of width 768, 12 heads, vocabulary 50304, bfloat16 autocast, fused AdamW; batch 8 x 1024,
or with `--small` 1 x 256, where the host is the bottleneck. With `--device cpu` a tiny model shows
that everything runs.

Every mode runs in every round, in turn; ratios are to the plain block of the same round. `step` is
the median wall time of a step that is waited for, `stream` the time per step of several that are
not, `host` the median time until the step's Python code has returned, with an idle device at its
beginning (if the device is far behind, the driver makes the host wait in it). Kernels are summed by
torch.profiler over two steps. What a part of opscope costs the host per operator is the difference
of the host times of two modes; the small batch shows it best.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import pkgutil
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from others import Count
from torch import nn
from watching import OUTPUTS, WATCHES, CountingEngine, Wanting, capturing, prepare, quiet

MODES = (
    *("plain", "empty", "naive", "capture", "rows", "numbers", "stats", "watch"),
    *("capture-python", "rows-python", "numbers-python", "stats-python"),
)
PARTS = {
    "empty": ("plain", "an empty Python mode"),
    "capture": ("plain", "names, scopes, stacks, edges"),
    "rows": ("capture", "+ rows, not read"),
    "numbers": ("rows", "+ values submitted to the device"),
    "stats": ("numbers", "+ run directory"),
    "watch": ("stats", "+ recommended watchpoints"),
}
"""Mode → the mode it is compared with, and what it adds to it."""
WARM = 4
"""Steps of a block that are not counted."""
Step = Callable[[], None]
Result = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """A model and a batch."""

    name: str
    batch: int
    length: int
    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 50304


LARGE, SMALL = Size("batch 8 x 1024", 8, 1024), Size("batch 1 x 256", 1, 256)
TINY = (
    Size("tiny, batch 2 x 32", 2, 32, 2, 64, 4, 256),
    Size("tiny, batch 1 x 16", 1, 16, 2, 64, 4, 256),
)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward part, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """A decoder whose output layer shares the weights of its embedding, as GPT-2 does."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def training(size: Size, device: str) -> Step:
    """A function that does a step."""
    torch.manual_seed(0)
    model = GPT(size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    shape = (size.batch, size.length)
    tokens = torch.randint(0, size.vocabulary, shape, device=device)
    targets = torch.randint(0, size.vocabulary, shape, device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class Bench:
    """The measurements of one size on one device."""

    def __init__(self, size: Size, device: str, steps: int, modes: Sequence[str] = MODES) -> None:
        self.size = size
        self.cuda = device == "cuda"
        self.steps = steps
        self.step = training(size, device)
        self.blocks: dict[str, list[Result]] = {mode: [] for mode in modes}
        self.kernels: dict[str, Result | None] = {}
        self.counts: Result = {}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.cuda:
            torch.cuda.synchronize()

    def run(self, rounds: int, deadline: float) -> None:
        """Count, profile, then do the rounds there is time for, at least one."""
        for _ in range(WARM):
            self.step()
        self.counts = self._count()
        for mode in self.blocks.keys() & {"plain", "naive", "stats"}:
            self.kernels[mode] = self._profile(mode) if self.cuda else None
        for number in range(rounds):
            if number and time.monotonic() > deadline:
                print(f"{self.size.name}: no time for more than {number} rounds", flush=True)
                break
            for mode, blocks in self.blocks.items():
                blocks.append(self._block(mode))

    def _block(self, mode: str) -> Result:
        gc.collect()
        waited, hosts = [], []
        with quiet(), WATCHES[mode]() as end_step:
            for _ in range(WARM):
                self.step()
                end_step()
            self.synchronize()
            if self.cuda:
                torch.cuda.reset_peak_memory_stats()
            for _ in range(self.steps):
                began = time.perf_counter()
                self.step()
                returned = time.perf_counter()
                end_step()
                self.synchronize()
                waited.append(time.perf_counter() - began)
                hosts.append(returned - began)
            began = time.perf_counter()
            for _ in range(self.steps):
                self.step()
                end_step()
            self.synchronize()
            stream = (time.perf_counter() - began) / self.steps
            peak = torch.cuda.max_memory_allocated() if self.cuda else 0
        return {
            "step": statistics.median(waited) * 1e3,
            "stream": stream * 1e3,
            "host": statistics.median(hosts) * 1e3,
            "peak": peak,
        }

    def _count(self) -> Result:
        """Operators and rows of a step, and what is read for these."""
        with Count() as mode:
            self.step()
        engine, sink = CountingEngine(), Wanting(OUTPUTS)
        with quiet(), capturing(sink, engine):
            self.step()
            self.step()
            engine.reads.clear()
            self.step()
            reads = dict(engine.reads)
        return {"operators": mode.operators, "rows": sink.rows[2], **reads}

    def _profile(self, mode: str) -> Result | None:
        """Milliseconds of kernels and copies per step; None if they cannot be had."""
        from torch.profiler import ProfilerActivity, profile

        try:
            with quiet(), WATCHES[mode]() as end_step:
                for _ in range(WARM):
                    self.step()
                    end_step()
                self.synchronize()
                with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                    for _ in range(2):
                        self.step()
                        end_step()
                    self.synchronize()
            return kernel_times(profiler.events() or (), steps=2)
        except Exception as error:  # noqa: BLE001 - the other figures do not depend on it
            print(f"no profile of {mode}: {type(error).__name__}: {error}", flush=True)
            return None

    # ------------------------------------------------------------------ results

    def results(self) -> Result:
        """Everything, per mode."""
        modes = {mode: self._mode_result(mode) for mode, blocks in self.blocks.items() if blocks}
        return {
            "size": self.size.name,
            "rounds": len(self.blocks["plain"]),
            **self.counts,
            "modes": modes,
            "parts_us": self.parts(),
        }

    def _mode_result(self, mode: str) -> Result:
        blocks, plain = self.blocks[mode], self.blocks["plain"]
        found: Result = {}
        for name in ("step", "stream", "host"):
            ratios = [b[name] / p[name] for b, p in zip(blocks, plain, strict=True)]
            found[f"{name}_ms"] = round(statistics.median(b[name] for b in blocks), 3)
            found[f"{name}_ratio"] = round(statistics.median(ratios), 3)
            found[f"{name}_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
        peak = max(block["peak"] for block in blocks)
        if peak:
            found["peak_mib"] = round(peak / 2**20, 1)
            found["peak_ratio"] = round(peak / min(block["peak"] for block in plain), 4)
        kernels, base = self.kernels.get(mode), self.kernels.get("plain")
        if kernels and base:
            found["kernels"] = kernels
            found["kernels_added"] = round(kernels["total_ms"] / base["total_ms"] - 1, 4)
        return found

    def parts(self) -> Result:
        """Microseconds of the host per operator that each part adds, with and without the hook."""
        found = {}
        for way in ("", "-python"):
            for mode, (before, _) in PARTS.items():
                late = mode if mode == "empty" else mode + way
                early = before if before == "plain" else before + way
                if (way and mode == "empty") or not {late, early} <= self.blocks.keys():
                    continue
                pairs = zip(self.blocks[early], self.blocks[late], strict=True)
                added = [(b["host"] - a["host"]) * 1e3 / self.counts["operators"] for a, b in pairs]
                found[late] = round(statistics.median(added), 2)
        return found


def kernel_times(events: Iterable[Any], steps: int) -> Result:
    """Sums of what ran on the device: everything, opscope's kernels, and copies; by name."""
    own = _own_kernels()
    by_name: dict[str, list[float]] = {}
    for event in events:
        if not str(event.device_type).endswith("CUDA") or _is_annotation(event):
            continue
        by_name.setdefault(event.name, []).append(event.time_range.elapsed_us() / 1000 / steps)
    if not by_name:
        raise RuntimeError("the profiler saw no kernel")
    longest = sorted(by_name, key=lambda name: -sum(by_name[name]))[:12]
    mine = [name for name in by_name if name.partition("(")[0] in own]
    copies = [name for name in by_name if name.startswith(("Memcpy", "Memset"))]
    return {
        "total_ms": round(math.fsum(map(math.fsum, by_name.values())), 4),
        "opscope_ms": round(math.fsum(math.fsum(by_name[name]) for name in mine), 4),
        "copies_ms": round(math.fsum(math.fsum(by_name[name]) for name in copies), 4),
        "launches": sum(map(len, by_name.values())) // steps,
        "opscope_launches": sum(len(by_name[name]) for name in mine) // steps,
        "opscope_kernels": {
            name: [len(by_name[name]) // steps, round(sum(by_name[name]), 4)] for name in mine
        },
        "longest": {
            name[:80]: [len(by_name[name]) // steps, round(sum(by_name[name]), 4)]
            for name in longest
        },
    }


def _is_annotation(event: Any) -> bool:
    """Whether this is a span that somebody named, such as an optimizer's step, and no kernel."""
    named = getattr(event, "is_user_annotation", False)
    return bool(named) or event.name.startswith(("Optimizer.", "ProfilerStep"))


def _own_kernels() -> set[str]:
    """The names of opscope's Triton kernels; none without Triton."""
    found: set[str] = set()
    try:
        from opscope.stats import cuda

        for module in pkgutil.iter_modules(cuda.__path__):
            members = vars(importlib.import_module(f"{cuda.__name__}.{module.name}"))
            found |= {n for n, m in members.items() if type(m).__name__ == "JITFunction"}
    except ImportError:
        pass
    return found


# ---------------------------------------------------------------------- tables


def number(value: Any, form: str) -> str:
    """A number for a table; nothing if there is none."""
    return "" if value is None else format(value, form)


def modes_table(result: Result) -> str:
    """One line per mode, in Markdown."""
    lines = [
        "| mode | step, ms | ratio | stream ratio | host, ms | ratio | kernels, ms (opscope's) "
        "| kernels added | peak memory |",
        "|---" * 9 + "|",
    ]
    for mode, found in result["modes"].items():
        low, high = found["step_range"]
        kernels = found.get("kernels")
        shown = f"{kernels['total_ms']:.2f} ({kernels['opscope_ms']:.2f})" if kernels else ""
        cells = (
            *(
                mode,
                f"{found['step_ms']:.2f}",
                f"{found['step_ratio']:.2f} [{low:.2f}, {high:.2f}]",
            ),
            *(f"{found['stream_ratio']:.2f}", f"{found['host_ms']:.2f}"),
            *(f"{found['host_ratio']:.2f}", shown, number(found.get("kernels_added"), "+.1%")),
            number(found.get("peak_ratio"), ".3f"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parts_table(result: Result) -> str:
    """What each part costs the host, in Markdown."""
    parts = result["parts_us"]
    lines = ["| µs of the host per operator | native hook | Python |", "|---|---|---|"]
    for mode, (_, label) in PARTS.items():
        native = "" if mode == "empty" else number(parts.get(mode), ".2f")
        python = number(parts.get(mode if mode == "empty" else mode + "-python"), ".2f")
        lines.append(f"| {label} | {native} | {python} |")
    return "\n".join(lines)


def heading(result: Result) -> str:
    """What a step consists of."""
    return (
        f"{result['size']}: {result['operators']} operators, {result['rows']} rows, of which "
        f"{result.get('tensors', 0)} read ({result.get('small', 0)} of at most 1 MiB), "
        f"{result.get('bytes', 0) / 1e9:.3f} GB; {result['rounds']} rounds"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--small", action="store_true", help="batch 1 x 256 instead of 8 x 1024")
    sizes.add_argument("--both", action="store_true", help="one after the other")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="per block, twice")
    parser.add_argument("--seconds", type=float, default=200, help="no new round after this")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--mode", action="append", choices=MODES, help="only these, beside plain")
    args = parser.parse_args()
    began = time.monotonic()
    large, small = (LARGE, SMALL) if args.device == "cuda" else TINY
    chosen = [large, small] if args.both else [small if args.small else large]
    if args.device == "cpu":
        torch.set_num_threads(1)
    with quiet():
        facts: Result = {**prepare(), **gpu_facts(args.device)}
    print(json.dumps(facts), flush=True)
    results = []
    for place, size in enumerate(chosen, 1):
        chosen_modes = [mode for mode in MODES if not args.mode or mode in ("plain", *args.mode)]
        bench = Bench(size, args.device, args.steps, chosen_modes)
        bench.run(args.rounds, began + args.seconds * place / len(chosen))
        results.append(bench.results())
        del bench
        gc.collect()  # an optimizer that lingers would be waited for
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": facts, "results": results}, file, indent=1)
    print(f"took {time.monotonic() - began:.0f} s", flush=True)
    for result in results:
        print(f"\n{heading(result)}\n\n{modes_table(result)}\n\n{parts_table(result)}", flush=True)


def gpu_facts(device: str) -> Result:
    """What the device and its compiler are called."""
    if device != "cuda":
        return {}
    try:
        triton = importlib.import_module("triton").__version__
    except ImportError:
        triton = "none"
    return {"gpu": torch.cuda.get_device_name(), "triton": triton}


if __name__ == "__main__":
    main()
