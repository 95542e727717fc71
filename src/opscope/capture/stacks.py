"""The place in the user's code that an operator was called from."""

from __future__ import annotations

import functools
import os
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

import torch

from opscope.events import Frame, Stack
from opscope.interruptions import never_left

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
_PLACES = 1 << 16
"""So many places in code are remembered; programs may compile new code all the time."""


user_files: dict[str, bool] = {}
"""The file names met so far, each with True if it belongs to the user's code."""


@never_left
def is_user_file(name: str) -> bool:
    """Tell whether a file is the user's or a library's, rather than torch, opscope or Python."""
    known = user_files.get(name)
    if known is None:
        known = not name.startswith(("<frozen ", _TORCH + "/", _OPSCOPE + "/"))
        if known and name.startswith(_STDLIB + "/"):
            known = "/site-packages/" in name or "/dist-packages/" in name
        user_files[name] = known
    return known


@functools.cache
@never_left
def is_compiled_file(name: str) -> bool:
    """Tell whether a file is code that Inductor has written, or torch's own around such code.

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
        self._frames: dict[Frame, Frame] = {}
        self._at: dict[tuple[int, int], tuple[CodeType, Frame | None]] = {}
        """By code and place in it: its frame, or None if it is opscope's. Most frames of a new
        stack were in others before."""
        self._by_frames: dict[tuple[int, ...], Stack] = {}
        """By the ids of frames that are kept."""
        self.none = self._intern([])

    def take(self, frame: FrameType | None) -> Stack:
        """The stack of `frame`, without opscope's own frames and what lies below the script."""
        frames: list[Frame] = []
        known = self._at
        while frame is not None and len(frames) < _MAX_FRAMES:
            code = frame.f_code
            at = known.get((id(code), frame.f_lasti))
            found = at[1] if at is not None else self._add(code, frame)
            if found is not None:
                frames.append(found)
            elif code.co_name == "run_script":
                break
            frame = frame.f_back
        return self._intern(frames)

    def _add(self, code: CodeType, frame: FrameType) -> Frame | None:
        name, found = code.co_filename, None
        if not name.startswith(_OPSCOPE + "/"):
            made = Frame(name, frame.f_lineno, code.co_name, is_user_file(name))
            found = self._frames.setdefault(made, made)
        if len(self._at) >= _PLACES:
            self._at.clear()
        self._at[id(code), frame.f_lasti] = code, found
        return found

    def _intern(self, frames: list[Frame]) -> Stack:
        key = tuple(map(id, frames))
        stack = self._by_frames.get(key)
        if stack is None:
            stack = self._by_frames[key] = Stack(len(self._by_frames), tuple(frames))
        return stack


def is_recompute(stack: Stack) -> bool:
    """Tell whether this stack is a checkpointed part of the forward run again inside backward."""
    return any(frame.file == _CHECKPOINT for frame in stack.frames)
