"""Launching compiled kernels at the price of one C call, for callers in Python and in C++.

Triton's own `kernel[grid](...)` costs about 20 µs: it binds and inspects every argument. Here a
kernel is compiled once per form and device, and its C launcher is called directly. That launcher is
a private matter of Triton, so anything unexpected about it leads back to slower, public ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from opscope.stats.cuda import forms
from opscope.stats.cuda.forms import ElementForm


class Kernel(NamedTuple):
    """A compiled kernel; `launch` is called as Triton 3.6's C launcher is.

    launch(grid x, grid y, grid z, stream, function, cooperative, pdl, None, None, packed,
           None, None, None, *arguments of the kernel, constants included)
    """

    launch: Callable[..., Any]
    function: int
    cooperative: bool
    pdl: bool
    packed: Any
    shared: int
    name: str


class LaunchInfo(NamedTuple):
    """The facts a native caller needs to launch `parts` by itself.

    cuLaunchKernel(function, grid x, grid y, 1, threads, 1, 1, shared, stream, parameters, NULL)
    with the addresses of eight 64-bit parameters, in this order:

    1. table: address of a table of tensors, or 0
    2. x: address of the elements
    3. n: number of elements, not 0
    4. part: address of `programs` partial rows, each `PART_BYTES`
    5. head: address of the head of the row, `HEAD_BYTES`
    6. times: how often each element counts, usually 1
    7. scratch: 0 (Triton's global scratch memory)
    8. profile: 0 (Triton's profiling scratch memory)

    Grid x is `forms.programs(n, group)` and grid y is 1. With a table, whose entries are parameters
    2 to 6 as int64, grid y is their number, grid x anything, and parameter 2 the `coarse` with
    which `forms.programs` was asked. `x` must be a multiple of 16 for the aligned variant. The
    device of the function must be current.
    """

    function: int
    threads: int
    shared: int
    group: int


@functools.cache
def parts_kernel(form: ElementForm, aligned: bool, precise: bool, device: int) -> Kernel:
    """The kernel of partial rows for elements of this form; `device` is the current one."""
    from opscope.stats.cuda.parts_kernel import parts

    constants = _constants(form, aligned, precise)
    return compiled(parts, 6, constants, forms.THREADS // 32, **forms.registers(form))


@functools.cache
def runs_kernel(form: ElementForm, aligned: bool, precise: bool, device: int) -> Kernel:
    """The same for a tensor with gaps."""
    from opscope.stats.cuda.parts_kernel import parts_of_runs

    constants = _constants(form, aligned, precise)
    return compiled(parts_of_runs, 10, constants, forms.THREADS // 32)


def _constants(form: ElementForm, aligned: bool, precise: bool) -> dict[str, Any]:
    """Return what kernels of partial rows are compiled for, in the order of their arguments."""
    import triton.language as tl

    return {
        "load": getattr(tl, form.load),
        "form": form.code,
        "group": form.group,
        "aligned": aligned,
        "precise": precise,
        "limit": forms.PROGRAMS,
        "threads": forms.THREADS,
        "unroll": forms.UNROLL,
        "ptx": _has_ptx(),
    }


def _has_ptx() -> bool:
    """Tell whether kernels are compiled to NVIDIA's instructions, and not interpreted."""
    import torch

    return torch.cuda.is_available() and torch.version.hip is None


@functools.cache
def finish_kernel(device: int) -> Kernel:
    """The kernel that finishes rows; `device` is the current one."""
    from opscope.stats.cuda.finish_kernel import finish

    return compiled(finish, 2, {"block": 128}, 4)


def launch_info(dtype: Any, aligned: bool = True, precise: bool = True) -> LaunchInfo:
    """Return how a native caller launches the kernel of a dtype on the current device."""
    import torch

    form = forms.forms()[dtype]
    kernel = parts_kernel(form, aligned, precise, torch.cuda.current_device())
    return LaunchInfo(kernel.function, forms.THREADS, kernel.shared, form.group)


def compiled(
    jit: Any, arguments: int, constants: dict[str, Any], warps: int, **options: Any
) -> Kernel:
    """Compile a kernel of `arguments` int64 arguments for the current device."""
    slow = _slow_launch(jit, arguments, constants, warps, options)
    if not hasattr(jit, "warmup") or not hasattr(jit, "device_caches"):
        return Kernel(slow, 0, False, False, None, 0, "")
    done = jit.warmup(*[0] * arguments, **constants, grid=(1,), num_warps=warps, **options)
    run = getattr(done, "run", None)
    function, packed = getattr(done, "function", None), getattr(done, "packed_metadata", None)
    launch = getattr(run, "launch", None)
    if run is None or function is None or launch is None or _scratch(run):
        return Kernel(slow, function or 0, False, False, None, 0, "")
    return Kernel(
        launch,
        function,
        run.launch_cooperative_grid,
        run.launch_pdl,
        packed,
        done.metadata.shared,
        done.metadata.name,
    )


def _scratch(run: Any) -> bool:
    """Tell whether the kernel needs memory that the C launcher does not bring; or nobody knows."""
    names = ("global_scratch_size", "profile_scratch_size")
    known = all(hasattr(run, name) for name in (*names, "launch_cooperative_grid", "launch_pdl"))
    return not known or any(getattr(run, name) for name in names)


def _slow_launch(
    jit: Any, arguments: int, constants: dict[str, Any], warps: int, options: dict[str, Any]
) -> Callable[..., Any]:
    """The public way to launch, called like the fast one. It launches on the current stream."""
    import torch

    def launch(x: int, y: int, z: int, stream: int, *rest: Any) -> None:
        values = rest[9 : 9 + arguments]
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            jit[x, y, z](*values, **constants, num_warps=warps, **options)

    def interpreted(x: int, y: int, z: int, stream: int, *rest: Any) -> None:
        jit[x, y, z](*rest[9 : 9 + arguments], **constants)

    return launch if torch.cuda.is_available() else interpreted
