"""What has to be so before any test is collected."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections import defaultdict
from unittest import mock

import pytest
import torch

if importlib.util.find_spec("triton") and not torch.cuda.is_available():
    # Triton settles when it is loaded whether its own functions are interpreted, and torch loads it
    # when it likes to: the tests of kernels need it so.
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        importlib.import_module("triton.language")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it runs in the background so; programs that tests start would be deaf.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MANY_CASES = 8


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave every second case of a test with many cases to `make test-long`."""
    cases: dict[tuple[str, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0], item.name.partition("[")[0]].append(item)
    for same in cases.values():
        for item in same[1::2] if len(same) > MANY_CASES else ():
            item.add_marker(pytest.mark.long)
