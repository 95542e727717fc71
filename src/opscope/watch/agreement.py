"""Ranks that agree, once per step: one that stops stops all, and replicas are compared."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from opscope.messages import say_once

_PATIENCE = 600.0
"""Seconds to wait for the other ranks, which may be busy with an evaluation or a checkpoint."""
_LOOK = timedelta(seconds=2)
_KEPT = 4

AgreementMessage = Mapping[str, Any]


class Agreement:
    """Exchanges a small message with the other ranks through the process group's own store.

    The connection is a copy of ours, so nobody else waits while we do. If some rank does not come,
    ranks go on without each other, which is said once.
    """

    def __init__(self, store: Callable[[], Any] | None = None) -> None:
        self._make = store or _group_store
        self._store: Any = None
        self._count = 0
        self._broken = False
        self.rank = 0
        self.size = 1

    @property
    def possible(self) -> bool:
        """True if there are other ranks to agree with."""
        return not self._broken and self._connect()

    def meet(self, message: AgreementMessage) -> list[dict[str, Any]]:
        """Every rank's message, by rank; only this one's if there are no others."""
        if not self.possible:
            return [dict(message)]
        self._count += 1
        try:
            return self._exchange(message)
        except _AloneError as error:
            self._broken = True
            say_once(f"{error}: ranks are no longer stopped or compared together")
            return [dict(message)]
        except (RuntimeError, ValueError, OSError) as error:
            self._broken = True
            say_once(f"the ranks cannot be reached ({error}): they are no longer stopped together")
            return [dict(message)]

    def leave(self) -> None:
        """Leave: this rank has finished, and nobody shall wait for it."""
        if self._store is not None and not self._broken:
            try:
                self._store.set(f"gone/{self.rank}", "1")
            except RuntimeError:
                return

    def _connect(self) -> bool:
        if self._store is not None:
            return True
        found = self._make()
        if found is None:
            return False
        self._store, self.rank, self.size = found
        return True

    def _exchange(self, message: AgreementMessage) -> list[dict[str, Any]]:
        own, everyone = f"{self._count}/{self.rank}", f"{self._count}/all"
        if self.rank != 0:
            self._store.set(own, json.dumps(message))
            found: list[dict[str, Any]] | None = json.loads(self._wait(everyone, 0))
            if found is None:
                raise _AloneError("rank 0 has not heard of every rank")
            return found
        try:
            others = [self._wait(f"{self._count}/{rank}", rank) for rank in range(1, self.size)]
        except _AloneError:
            self._store.set(everyone, "null")  # those who came shall not wait for an answer
            raise
        all_messages = [dict(message), *(json.loads(other) for other in others)]
        self._store.set(everyone, json.dumps(all_messages))
        self._forget(self._count - _KEPT)
        return all_messages

    def _wait(self, key: str, rank: int) -> bytes:
        end = time.monotonic() + _PATIENCE
        while not self._has_come(key):
            if self._store.check([f"gone/{rank}"]) and not self._store.check([key]):
                raise _AloneError(f"rank {rank} has finished before this one")
            if time.monotonic() > end:
                raise _AloneError(f"rank {rank} did not come for {_PATIENCE:g} s")
        answer: bytes = self._store.get(key)
        return answer

    def _has_come(self, key: str) -> bool:
        try:
            self._store.wait([key], _LOOK)
        except RuntimeError:  # how torch says that the time is over
            return False
        return True

    def _forget(self, count: int) -> None:
        if count > 0:
            for name in (*map(str, range(1, self.size)), "all"):
                self._store.delete_key(f"{count}/{name}")


class _AloneError(Exception):
    """Another rank does not answer any more."""


@functools.cache
def _distributed() -> Any:
    import torch.distributed

    return torch.distributed if torch.distributed.is_available() else None


def _group_store() -> tuple[Any, int, int] | None:
    """A connection of our own to the store of the default process group."""
    dist = _distributed()
    if dist is None or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    store = dist.distributed_c10d._get_default_store()
    try:
        store = store.clone()
    except (RuntimeError, AttributeError, NotImplementedError):
        pass
    prefixed = dist.PrefixStore("opscope", store)
    return prefixed, dist.get_rank(), dist.get_world_size()
