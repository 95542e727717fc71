from __future__ import annotations

import os
import threading
import time

import pytest

from opscope.dump.transport.channel import MAX_RECORD, Receiver, Sender
from opscope.dump.transport.memory import CONTROL_BYTES, SharedMemory, create


def pair() -> tuple[Sender, Receiver, int]:
    descriptor = create(4096)
    memories = SharedMemory(descriptor, 4096), SharedMemory(descriptor, 4096)
    os.close(descriptor)
    reader, writer = os.pipe()

    def wait() -> None:
        sender.ring()
        time.sleep(0.001)

    sender = Sender(memories[0], writer, wait)
    return sender, Receiver(memories[1], reader), writer


def received(receiver: Receiver) -> list[tuple[object, ...]]:
    return [record for burst in receiver.bursts() for record in burst]


def test_records_arrive_in_order_and_whole() -> None:
    sender, receiver, bell = pair()
    records = [("value", number, "x" * (number % 977), 2**70, None) for number in range(8000)]
    assert sum(len(record[2]) for record in records) > CONTROL_BYTES
    heard: list[tuple[object, ...]] = []
    thread = threading.Thread(target=lambda: heard.extend(received(receiver)))
    thread.start()
    for record in records:
        sender.send(record)
    os.close(bell)
    thread.join(30)
    assert heard == records


def test_what_was_published_but_not_rung_is_read_at_the_end() -> None:
    sender, receiver, bell = pair()
    sender.send(("one",))
    sender.send(("two",))
    os.close(bell)
    assert received(receiver) == [("one",), ("two",)]


def test_a_record_that_was_interrupted_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver, bell = pair()
    sender.send(("one",))
    with monkeypatch.context() as patch:

        def interrupted(self: SharedMemory, position: int, data: bytes) -> None:
            raise KeyboardInterrupt

        patch.setattr(SharedMemory, "write_control", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sender.send(("lost",))
    sender.send(("two",))
    os.close(bell)
    assert received(receiver) == [("one",), ("two",)]


def test_a_full_bell_does_not_block() -> None:
    sender, receiver, bell = pair()
    for number in range(20_000):
        sender.send((number,))
        sender.ring()
    os.close(bell)
    assert received(receiver) == [(number,) for number in range(20_000)]


def test_a_record_that_can_never_fit_is_refused() -> None:
    sender, _, bell = pair()
    with pytest.raises(ValueError, match="bytes"):
        sender.send((b"x" * MAX_RECORD,))
    os.close(bell)
