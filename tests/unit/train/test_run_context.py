from __future__ import annotations

import pytest

from opscope.train import RunContext
from opscope.train.run_context import Arguments


def test_entries_are_attributes_both_ways() -> None:
    arguments = Arguments(epoch_num=3)
    arguments.init_time = 1.5
    arguments["own"] = "x"
    assert (arguments.epoch_num, arguments["init_time"], arguments.own) == (3, 1.5, "x")
    del arguments.own
    assert "own" not in arguments


@pytest.mark.parametrize("kind", [AttributeError, KeyError])
def test_what_is_missing_is_named_with_what_there_is(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"there is no no_such here, only: epoch_num"):
        _ = Arguments(epoch_num=1).no_such
    assert not hasattr(Arguments(), "x")
    with pytest.raises(kind):
        del Arguments().x


def test_a_stop_is_requested() -> None:
    context = RunContext(Arguments(a=1))
    assert not context.get_stop_requested()
    context.request_stop()
    assert context.get_stop_requested()
    assert context.original_args() == {"a": 1}
