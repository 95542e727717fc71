"""The work of DataLoaders in this process, and the batches they give."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data._utils import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from opscope.capture.guards import quiet
from opscope.capture.recognising import arguments
from opscope.capture.thread_state import DATA, EARLY_DATA, FORWARD, SETUP
from opscope.capture.torch_program import TorchProgram
from opscope.events import Outside


class DataLoading:
    """Tells the loading of data from training."""

    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        program.patches.wrap(DataLoader, "__iter__", self._data_loader_iter)
        program.patches.wrap(_BaseDataLoaderIter, "__next__", self._next_batch)
        program.patches.wrap(pin_memory, "_pin_memory_loop", self._pin_memory_loop)

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        """Treat this block as loading of data, and none of its modules as a network."""
        state = self._program.threads.local.state
        scope, phase = state.scope, state.phase
        state.scope = self._program.threads.root.data()
        state.phase = DATA if self._program.watch.setup_done else EARLY_DATA
        state.depth += 1
        try:
            yield
        finally:
            state.depth -= 1
            state.scope = scope
            state.phase = FORWARD if phase == SETUP and self._program.watch.setup_done else phase

    def _data_loader_iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(loader: Any) -> Any:  # noqa: N807
            with self._loading():
                return original(loader)

        return __iter__

    def _pin_memory_loop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Look away from a loader's thread that copies batches: it is no part of training.

        It runs beside all steps, and where several threads are looked at each operator costs more.
        """

        def loop(*args: Any, **kwargs: Any) -> Any:
            if self._program.seen_by is not None:
                self._program.seen_by.mute_thread()
            return original(*args, **kwargs)

        return loop

    def _next_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807
            with self._loading():
                batch = original(iterator)
            if self._program.watch.recording:
                with quiet():
                    for name, tensor in arguments((batch,), {}):
                        self._program.watch.add_arrival(tensor, Outside("batch", name))
            return batch

        return __next__
