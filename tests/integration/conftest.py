"""Real trainings, recorded: `record()` watches a block and keeps every value it sees."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator

import pytest
import torch

from helpers.recorder import Recorder, recording


@pytest.fixture
def record() -> Callable[..., contextlib.AbstractContextManager[Recorder]]:
    """`with record() as seen:` watches a block."""
    return recording


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Bit-identity is judged on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def few_objects() -> Iterator[None]:
    """Leave few objects to capture, which looks through all of them for optimizers."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
