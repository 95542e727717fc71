"""Values waiting in a piece of shared memory, each once, until their jobs are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

ALIGNMENT = 64
SOFT_LIMIT = 64 * 2**20
_LOOKS = 8


def aligned(size: int) -> int:
    """The size rounded up to where the next value may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def rounded(size: int) -> int:
    """The size of the piece that a value of this size gets: one of eight per power of two."""
    size = max(aligned(size), ALIGNMENT)
    step = max(1 << (size.bit_length() - 4), ALIGNMENT)
    return -(-size // step) * step


class Slot:
    """A piece of the arena; free again when `job`, the last one that reads it, is done."""

    __slots__ = ("content", "job", "key", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.key: Hashable = None
        self.job = 0
        self.content: tuple[int, ...] = ()


class Arena:
    """Gives out pieces of `limit` bytes, and the same ones again when their jobs are done.

    Steps repeat themselves, so pieces are used again for values of the same size. More than the
    soft limit is taken only when the jobs fall behind: memory that has been written to before is
    several times as fast.
    """

    def __init__(self, limit: int, done: Callable[[], int], wait: Callable[[], None]) -> None:
        self.limit = limit // ALIGNMENT * ALIGNMENT
        self.taken = 0
        self._done = done
        self._wait = wait
        self._given: deque[Slot] = deque()
        self._free: dict[int, list[int]] = {}
        self._kept: dict[Hashable, Slot] = {}

    @property
    def soft_limit(self) -> int:
        """The memory that is taken without need, at most."""
        return min(self.limit, SOFT_LIMIT)

    def fits(self, nbytes: int) -> bool:
        """Tell whether there can ever be a piece of this size."""
        return rounded(nbytes) <= self.limit

    def find(self, key: Hashable) -> Slot | None:
        """The piece that is kept under this key, if it still holds its value."""
        return self._kept.get(key)

    def allocate(self, nbytes: int) -> Slot:
        """A piece of at least this size, which fits; waits for jobs when there is none."""
        size = rounded(nbytes)
        while (start := self._piece(size)) is None:
            self._wait()
        slot = Slot(start, size)
        self._given.append(slot)
        return slot

    def keep(self, slot: Slot, key: Hashable) -> None:
        """Let a piece that holds its value be found, unless the key is None."""
        if key is not None:
            slot.key = key
            self._kept[key] = slot

    def forget(self) -> None:
        """Find nothing of what was kept so far."""
        self._kept.clear()
        if self._given and self._is_all_done():
            self._start_over()

    def _piece(self, size: int) -> int | None:
        free = self._free.get(size)
        if free:
            return free.pop()
        if self.taken + size <= self.soft_limit:
            return self._take(size)
        self._reclaim(size)
        if free := self._free.get(size):
            return free.pop()
        if self.taken + size > self.limit and self._is_all_done():
            self._start_over()
        return self._take(size) if self.taken + size <= self.limit else None

    def _take(self, size: int) -> int:
        start, self.taken = self.taken, self.taken + size
        return start

    def _reclaim(self, size: int) -> None:
        """Free the oldest pieces whose jobs are done, until there is one of this size."""
        done, looks = self._done(), 0
        while self._given and looks < _LOOKS and not self._free.get(size):
            slot = self._given.popleft()
            if slot.job <= done:
                self._release(slot)
            else:
                self._given.append(slot)
                looks += 1

    def _release(self, slot: Slot) -> None:
        self._free.setdefault(slot.size, []).append(slot.start)
        if slot.key is not None and self._kept.get(slot.key) is slot:
            del self._kept[slot.key]

    def _is_all_done(self) -> bool:
        done = self._done()
        return all(slot.job <= done for slot in self._given)

    def _start_over(self) -> None:
        """Give out all memory anew, in pieces of other sizes."""
        self._kept.clear()
        self._given.clear()
        self._free.clear()
        self.taken = 0
