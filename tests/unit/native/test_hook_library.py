"""Building the hook in the background."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.messages import forget_said
from opscope.native import hook_library
from opscope.native.build import Built


class Building:
    """A build that ends when it is told to, and leaves nothing behind."""

    ended = False

    def poll(self) -> int | None:
        return 0 if self.ended else None


def test_a_build_that_leaves_nothing_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun: list[Building] = []

    def popen(*args: Any, **kwargs: Any) -> Building:
        begun.append(Building())
        return begun[-1]

    forget_said()
    monkeypatch.setattr(hook_library.subprocess, "Popen", popen)
    monkeypatch.setattr(hook_library, "build_hook", lambda torch, only_find: Built(None))
    monkeypatch.setattr(hook_library, "_background", None)
    monkeypatch.setattr(hook_library, "_tried", False)
    assert hook_library.find_hook(None) is None
    assert not hook_library.background_has_ended()
    begun[0].ended = True
    assert hook_library.background_has_ended()
    assert not hook_library.background_has_ended(), "said once"
    assert hook_library.find_hook(None) is None
    assert len(begun) == 1
    assert capfd.readouterr().err.count("building the native hook in the background") == 1


def test_a_forked_child_does_not_wait_for_its_parents_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    building = Building()
    building.ended = True
    monkeypatch.setattr(hook_library, "_background", (-1, building))
    assert not hook_library.background_has_ended()
