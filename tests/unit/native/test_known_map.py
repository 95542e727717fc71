"""The native map of tensors that are known in a step."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscope.capture import hook
from opscope.capture.known import PythonKnownTensors
from opscope.events import Outside

MADE = 2000
SOURCE = Outside("batch", "x")


@pytest.fixture
def native() -> Any:
    module = hook.load()
    if module is None:
        pytest.skip("there is no native observer")
    return module


def test_memory_of_tensors_that_are_gone_is_used_again(native) -> None:
    known = native.Known()
    tensors, storages = set(), set()
    for index in range(MADE):
        tensor = torch.empty(3)
        assert known.get(native.key(tensor)) is None
        known.put(native.key(tensor), SOURCE, index)
        tensors.add(native.key(tensor))
        storages.add(tensor.untyped_storage()._cdata)
    assert len(tensors) < MADE // 4
    assert len(storages) < MADE // 4


def test_tensors_that_are_alive_stay_known(native) -> None:
    known = native.Known()
    kept = []
    for index in range(MADE):
        tensor = torch.empty(3)
        known.put(native.key(tensor), SOURCE, index)
        if index % 3 == 0:
            kept.append((tensor, index))
    assert [known.call_of(native.key(tensor)) for tensor, _ in kept] == [at for _, at in kept]


def test_a_view_outlives_what_it_is_of(native) -> None:
    known = native.Known()
    base = torch.zeros(4)
    view = base[1:]
    known.put(native.key(base), SOURCE, 1)
    known.put_view(native.key(view), native.key(base), SOURCE, SOURCE, 2)
    del base
    for index in range(MADE):
        tensor = torch.empty(3)
        known.put(native.key(tensor), SOURCE, 10 + index)
    assert known.call_of(native.key(view)) == 2
    known.put_write(native.key(view), SOURCE, 5)
    assert known.call_of(native.key(view)) == 5


LASTING = [Outside("parameter", f"p{number}", f"p{number}") for number in range(4)]
MAKERS = [Outside("batch", f"x{number}") for number in range(4)]
ACTIONS = (
    *("make", "view", "part", "write", "lose", "swap", "swap and use", "swap back"),
    *("step", "step", "step without the last"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    shared=st.booleans(),
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11), st.integers(0, 3)), max_size=40
    ),
)
def test_steps_begin_as_the_map_in_python_has_them(
    native: Any, shared: bool, actions: list[tuple[str, int, int]]
) -> None:
    """Views, writes and new memory of what lasts leave nothing behind, whoever shares what."""
    memory = torch.zeros(64)
    tensors = [memory[8 * n : 8 * n + 8] if shared else torch.zeros(8) for n in range(4)]
    lasting = {native.key(tensor): LASTING[n] for n, tensor in enumerate(tensors)}
    known, python = native.Known(), PythonKnownTensors()
    known.restart(lasting)
    python.restart(lasting)
    first = [tensor.detach() for tensor in tensors]
    for call, (action, which, source) in enumerate(actions):
        tensor, maker = tensors[which % len(tensors)], MAKERS[source]
        key = native.key(tensor)
        if action == "make":
            tensors.append(torch.zeros(8))
            known.put(native.key(tensors[-1]), maker, call)
        elif action in ("view", "part"):
            tensors.append(tensor.detach() if action == "view" else tensor[2:5])
            of_base = known.get(key) or SOURCE
            known.put_view(native.key(tensors[-1]), key, of_base, maker, call)
        elif action == "write":
            known.put_write(key, maker, call)
        elif action == "lose" and 4 <= which < len(tensors):
            del tensors[which], tensor
        elif action.startswith("swap") and which < 4:
            tensors[which].data = first[which] if action == "swap back" else torch.zeros(8)
            if action == "swap and use":
                known.put_outside(native.key(tensors[which]), LASTING[which])
        elif action.startswith("step"):
            chosen = dict(list(lasting.items())[: 3 if action.endswith("last") else 4])
            known.restart(chosen)
            python.restart(chosen)
            for each in tensors:
                at = native.key(each)
                assert (known.get(at), known.call_of(at)) == (python.get(at), python.call_of(at))
            del tensors[4:]
    known.restart({})
    assert [known.get(native.key(each)) for each in tensors] == [None] * len(tensors)


def test_new_memory_of_what_lasts_is_let_go_of(native) -> None:
    """Storages that a tensor had in steps before leave nothing behind, nor do writes to them."""
    known, lasting = native.Known(), torch.zeros(4)
    written, other = Outside("batch", "written"), torch.zeros(4)
    sources = {native.key(lasting): LASTING[0], native.key(other): LASTING[1]}
    known.restart(sources)
    references = sys.getrefcount(written), sys.getrefcount(LASTING[0])
    before = lasting.detach()
    for step in range(50):
        known.put_write(native.key(lasting), written, step)
        lasting.data = torch.empty(4) if step % 2 else before
        known.put_outside(native.key(lasting), LASTING[0])
        known.restart(sources)
        assert known.call_of(native.key(lasting)) == -1
        assert (sys.getrefcount(written), sys.getrefcount(LASTING[0])) == references
