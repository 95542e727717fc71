"""The messages for failures inside opscope, and of devices while it looks."""

from __future__ import annotations

import traceback

import torch

from opscope.capture.stacks import is_user_file
from opscope.interruptions import is_of_script
from opscope.messages import say_once


def is_of_device(error: BaseException | str) -> bool:
    """Tell whether an error is one of a device, that we only happened to meet first."""
    kind = getattr(torch, "AcceleratorError", None)
    return (kind is not None and isinstance(error, kind)) or "CUDA error" in str(error)


def is_ours(error: BaseException) -> bool:
    """Tell whether an exception comes from our code, or is the script's and only passes through it.

    A signal's handler runs wherever Python is just then, and may raise.
    """
    if not isinstance(error, Exception) or is_of_script(error):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not (frames and is_user_file(frames[-1].filename))


def report_device(error: BaseException | str) -> None:
    """Say once that a device has failed."""
    first = str(error).strip().partition("\n")[0]
    say_once(f"the device has failed ({first}): nothing can be read from it any more", "device")


def report_failure(error: BaseException) -> None:
    """Say once that something inside opscope went wrong, and where; what a handler raised goes on."""
    if is_of_script(error):
        raise error
    if is_of_device(error):
        report_device(error)
        return
    where = traceback.extract_tb(error.__traceback__)[-1]
    say_once(
        f"internal error while watching an operator: {type(error).__name__}: {error} "
        f"({where.filename}:{where.lineno}); that operator is not recorded, training goes on",
        key=f"eager:{where.filename}:{where.lineno}",
    )
