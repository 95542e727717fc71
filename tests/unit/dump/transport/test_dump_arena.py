from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from opscope.dump.transport import arena as module
from opscope.dump.transport.arena import ALIGNMENT, Arena, Slot, rounded


class Jobs:
    """Jobs that are done one at a time, when somebody waits for them."""

    def __init__(self) -> None:
        self.given, self.done, self.waits = 0, 0, 0

    def wait(self) -> None:
        assert self.done < self.given, "waits for what will never happen"
        self.done += 1
        self.waits += 1


def new_arena(limit: int) -> tuple[Arena, Jobs]:
    jobs = Jobs()
    return Arena(limit, lambda: jobs.done, jobs.wait), jobs


def take(arena: Arena, jobs: Jobs, size: int, key: object = None) -> Slot:
    slot = arena.allocate(size)
    arena.keep(slot, key)
    jobs.given += 1
    slot.job = jobs.given
    return slot


@given(st.integers(0, 10**12))
def test_rounding_wastes_little(size: int) -> None:
    assert rounded(size) >= size
    assert rounded(size) % ALIGNMENT == 0
    assert rounded(size) <= size * 9 / 8 + ALIGNMENT
    assert rounded(rounded(size)) == rounded(size)


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(st.integers(0, 640), st.integers(0, 3), st.booleans(), st.booleans()),
        max_size=80,
    ),
    st.integers(0, 10),
)
def test_pieces_in_use_never_overlap(
    steps: list[tuple[int, int, bool, bool]], soft_limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SOFT_LIMIT", soft_limit * ALIGNMENT)
        arena, jobs = new_arena(10 * ALIGNMENT)
        live: list[tuple[Slot, int]] = []
        for number, (size, done, uses_again, forgets) in enumerate(steps):
            slot = take(arena, jobs, size, number)
            live = [(each, end) for each, end in live if each.job > jobs.done]
            end = slot.start + size
            assert slot.start % ALIGNMENT == 0
            assert end <= arena.limit
            assert all(slot.start >= other_end or end <= other.start for other, other_end in live)
            live.append((slot, end))
            if uses_again and (found := arena.find(number // 2)):
                jobs.given += 1
                found.job = jobs.given
                live.append((found, found.start + found.size))
            jobs.done = min(jobs.done + done, jobs.given)
            if forgets:
                arena.forget()


def test_waits_only_when_all_memory_is_pending() -> None:
    arena, jobs = new_arena(10 * ALIGNMENT)
    for _ in range(10):
        take(arena, jobs, ALIGNMENT)
    assert jobs.waits == 0
    take(arena, jobs, ALIGNMENT)
    assert jobs.waits == 1


def test_sizes_may_change_altogether() -> None:
    arena, jobs = new_arena(10 * ALIGNMENT)
    for _ in range(10):
        take(arena, jobs, ALIGNMENT)
    large = take(arena, jobs, 10 * ALIGNMENT)
    assert (large.start, jobs.waits) == (0, 10)


def test_a_kept_piece_is_found_until_its_room_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    arena, jobs = new_arena(3 * ALIGNMENT)
    slot = take(arena, jobs, 10, "a")
    jobs.done = jobs.given
    assert arena.find("a") is slot
    take(arena, jobs, 10)
    take(arena, jobs, 10)
    assert arena.find("a") is slot
    take(arena, jobs, 10)
    assert arena.find("a") is None


def test_a_shared_piece_waits_for_its_last_user() -> None:
    arena, jobs = new_arena(2 * ALIGNMENT)
    shared = take(arena, jobs, 10, "a")
    other = take(arena, jobs, 10)
    jobs.given += 1
    shared.job = jobs.given
    assert take(arena, jobs, 10).start == other.start
    assert jobs.done == 2
    assert arena.find("a") is shared


def test_a_key_belongs_to_its_latest_piece() -> None:
    arena, jobs = new_arena(3 * ALIGNMENT)
    take(arena, jobs, 10, "a")
    latest = take(arena, jobs, 10, "a")
    jobs.done = 1
    take(arena, jobs, 10)
    take(arena, jobs, 10)
    assert arena.find("a") is latest


def test_forgetting() -> None:
    arena, jobs = new_arena(3 * ALIGNMENT)
    first = take(arena, jobs, 10, "a")
    jobs.done = jobs.given
    arena.forget()
    assert arena.find("a") is None
    assert take(arena, jobs, 10, "a").start == first.start


def test_warm_memory_is_used_before_more_is_taken() -> None:
    piece = module.SOFT_LIMIT // 4
    arena, jobs = new_arena(2 * module.SOFT_LIMIT)
    starts = set()
    for _ in range(40):
        starts.add(take(arena, jobs, piece).start)
        jobs.done = jobs.given
    assert max(starts) < module.SOFT_LIMIT == arena.taken
    for _ in range(8):
        take(arena, jobs, piece)
    assert arena.taken == arena.limit
    assert jobs.waits == 0


def test_what_fits() -> None:
    arena, _ = new_arena(2 * ALIGNMENT + 5)
    assert arena.fits(2 * ALIGNMENT)
    assert not arena.fits(2 * ALIGNMENT + 1)
