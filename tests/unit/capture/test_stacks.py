"""The user's frames, and stacks that are kept once."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import FrameType

import pytest
import torch

import opscope
from opscope.capture import stacks
from opscope.capture.stacks import Stacks, find_user_frame, is_compiled_file, is_user_file, place_of

TORCH, OPSCOPE = Path(torch.__file__).parent, Path(opscope.__file__).parent
STDLIB = Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize(
    ("path", "is_users"),
    [
        ("/home/someone/train.py", True),
        ("<ipython-input-3>", True),
        (STDLIB / "site-packages/transformers/trainer.py", True),
        (STDLIB / "threading.py", False),
        ("<frozen importlib._bootstrap>", False),
        (TORCH / "nn/modules/linear.py", False),
        (OPSCOPE / "session.py", False),
    ],
)
def test_files_of_the_user(path: object, is_users: bool) -> None:
    assert is_user_file(str(path)) is is_users


def test_code_that_inductor_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    is_compiled_file.cache_clear()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/fast/cache")
    assert is_compiled_file("/tmp/torchinductor_me/ab/cab.py")
    assert is_compiled_file("/fast/cache/ab/cab.py")
    assert is_compiled_file(f"{TORCH}/_inductor/utils.py")
    assert not is_compiled_file("/fast/cached_model.py")
    assert not is_compiled_file(f"{TORCH}/nn/functional.py")
    is_compiled_file.cache_clear()


def frame_in(file: str, function: str = "made") -> FrameType:
    """Return a frame of a function in this file, called from here."""
    code = f"import sys\ndef {function}():\n    return sys._getframe()\n"
    names: dict[str, object] = {}
    exec(compile(code, file, "exec"), names)
    frame: FrameType = names[function]()  # type: ignore[operator]
    return frame


def test_the_innermost_frame_of_the_user() -> None:
    inside = frame_in(str(TORCH / "nn/made_up.py"))
    assert find_user_frame(inside).f_code.co_filename == __file__
    own = frame_in("/home/someone/train.py")
    assert find_user_frame(own) is own
    assert place_of(own) == (own.f_code, own.f_lasti)


def test_equal_stacks_are_one() -> None:
    kept = Stacks()
    taken = [kept.take(sys._getframe()) for _ in range(2)]
    assert taken[0] is taken[1]
    assert kept.take(None) is kept.none
    other = kept.take(frame_in("/home/someone/train.py"))
    assert len({other.id, taken[0].id, kept.none.id}) == 3
    assert (other.frames[0].file, other.frames[0].line) == ("/home/someone/train.py", 3)
    assert other.frames[0].user


def test_frames_of_opscope_are_left_out_and_the_script_is_the_end() -> None:
    stack = Stacks().take(frame_in(str(OPSCOPE / "made_up.py")))
    assert stack.frames, "what called it is there"
    assert all(not each.file.startswith(str(OPSCOPE)) for each in stack.frames)
    assert Stacks().take(frame_in(str(OPSCOPE / "script.py"), "run_script")).frames == ()


def test_many_places_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_PLACES", 4)
    kept = Stacks()
    frames = [frame_in(f"/home/someone/{n}.py") for n in range(20)]
    taken = []
    for frame in (*frames, frames[0]):
        taken.append(kept.take(frame))
        assert len(kept._at) <= 4
    assert taken[-1] is taken[0]


def test_a_checkpoint_that_runs_again() -> None:
    kept = Stacks()
    assert stacks.is_recompute(kept.take(frame_in(str(TORCH / "utils/checkpoint.py"))))
    assert not stacks.is_recompute(kept.take(sys._getframe()))
