"""Where in the user's code an operator was called from."""

from __future__ import annotations

import functools
import os
import sysconfig
from pathlib import Path
from types import FrameType

import torch

from opscope.events import Frame, Stack

_TORCH = str(Path(torch.__file__).parent)
_OPSCOPE = str(Path(__file__).parents[1])
_STDLIB = sysconfig.get_path("stdlib")
_CHECKPOINT = str(Path(_TORCH) / "utils" / "checkpoint.py")
_COMPILING = (
    f"{_TORCH}/_inductor/",
    f"{_TORCH}/_functorch/_aot_autograd/",
    f"{_TORCH}/_dynamo/convert_frame.py",
)
_MAX_FRAMES = 200


user_files: dict[str, bool] = {}
"""Whether a file name belongs to the user's code, for the names met so far."""


def is_user_file(name: str) -> bool:
    """Whether a file is the user's own or a library's, rather than torch, opscope or Python."""
    known = user_files.get(name)
    if known is None:
        known = not name.startswith(("<frozen ", _TORCH + "/", _OPSCOPE + "/"))
        if known and name.startswith(_STDLIB + "/"):
            known = "/site-packages/" in name or "/dist-packages/" in name
        user_files[name] = known
    return known


@functools.cache
def is_compiled_file(name: str) -> bool:
    """Whether a file is code that Inductor has written, or torch's own around such code.

    What runs there is not looked into.
    """
    if name.startswith(_COMPILING):
        return True
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    return "/torchinductor_" in name or bool(cache and name.startswith(cache + "/"))


def find_user_frame(frame: FrameType) -> FrameType:
    """The innermost frame of the user's code, or the outermost frame if there is none."""
    while not is_user_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def place_of(frame: FrameType) -> tuple[object, int]:
    """The place in the user's code that a frame was called from."""
    user = find_user_frame(frame)
    return user.f_code, user.f_lasti


class Stacks:
    """Interns stacks, so that equal ones share an id."""

    def __init__(self) -> None:
        self._by_frames: dict[tuple[Frame, ...], Stack] = {}
        self.none = self._intern(())

    def take(self, frame: FrameType | None) -> Stack:
        """The stack of `frame`, without opscope's own frames and what lies below the script."""
        frames: list[Frame] = []
        while frame is not None and len(frames) < _MAX_FRAMES:
            code = frame.f_code
            name = code.co_filename
            if not name.startswith(_OPSCOPE + "/"):
                user = is_user_file(name)
                frames.append(Frame(name, frame.f_lineno, code.co_name, user))
            elif code.co_name == "run_script":
                break
            frame = frame.f_back
        return self._intern(tuple(frames))

    def _intern(self, frames: tuple[Frame, ...]) -> Stack:
        stack = self._by_frames.get(frames)
        if stack is None:
            stack = Stack(len(self._by_frames), frames)
            self._by_frames[frames] = stack
        return stack


def is_recompute(stack: Stack) -> bool:
    """Whether this stack is a checkpointed part of the forward run again inside backward."""
    return any(frame.file == _CHECKPOINT for frame in stack.frames)
