"""Values waiting in a piece of shared memory: each once, in order, until their jobs are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

ALIGNMENT = 64
FIRST_SIZE = 64 * 2**20


def aligned(size: int) -> int:
    """The size that a piece of so many bytes takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Slot:
    """A piece of the arena; free again when `job`, the last one that reads it, is done."""

    __slots__ = ("content", "job", "key", "start")

    def __init__(self, start: int, key: Hashable) -> None:
        self.start = start
        self.key = key
        self.job = 0
        self.content: tuple[int, ...] = ()


class Arena:
    """Gives out pieces of `limit` bytes round and round.

    It starts with the first part only and takes more when the jobs fall behind, because memory
    that has been written to before is ten times as fast.
    """

    def __init__(self, limit: int, done: Callable[[], int], wait: Callable[[], None]) -> None:
        self.limit = limit // ALIGNMENT * ALIGNMENT
        self.size = min(self.limit, FIRST_SIZE)
        self._done = done
        self._wait = wait
        self._slots: deque[Slot] = deque()
        self._kept: dict[Hashable, Slot] = {}
        self._head = 0

    def fits(self, nbytes: int) -> bool:
        """Whether there can ever be a piece of this size."""
        return aligned(nbytes) <= self.limit

    def find(self, key: Hashable) -> Slot | None:
        """The piece that was given out under this key, if it still holds its value."""
        return self._kept.get(key)

    def allocate(self, nbytes: int, key: Hashable = None) -> Slot:
        """A piece of at least this size, which fits; waits for jobs when there is none."""
        size = aligned(nbytes) or ALIGNMENT
        while (start := self._room(size)) is None:
            self._make_room(size)
        slot = Slot(start, key)
        self._head = start + size
        self._slots.append(slot)
        if key is not None:
            self._kept[key] = slot
        return slot

    def forget(self) -> None:
        """Find nothing of what was given out so far."""
        self._kept.clear()
        done = self._done()
        while self._slots and self._slots[0].job <= done:
            self._slots.popleft()

    def _room(self, size: int) -> int | None:
        if not self._slots:
            return 0 if size <= self.size else None
        tail = self._slots[0].start
        if self._head <= tail:
            return self._head if self._head + size <= tail else None
        if self._head + size <= self.size:
            return self._head
        return 0 if size <= tail else None

    def _make_room(self, size: int) -> None:
        if self._slots and self._slots[0].job <= self._done():
            self._release_oldest()
        elif self.size < self.limit and (not self._slots or self._head > self._slots[0].start):
            self.size = min(self.limit, max(2 * self.size, size))
        else:
            self._wait()

    def _release_oldest(self) -> None:
        slot = self._slots.popleft()
        if slot.key is not None and self._kept.get(slot.key) is slot:
            del self._kept[slot.key]
