from __future__ import annotations

from api.http.slots import LogReader, StreamSlots

ADA, BOB = LogReader("ada", public=False), LogReader("bob", public=False)


def anonymous_readers(count: int) -> list[LogReader]:
    return [LogReader(f"192.0.2.{number}", public=True) for number in range(count)]


def test_readers_leave_places_for_renders():
    slots = StreamSlots(8)
    readers = [slots.acquire_for_reader(ADA) for _ in range(6)]
    assert None not in readers
    assert slots.acquire_for_reader(ADA) is None

    assert slots.acquire(1) is not None
    assert slots.acquire(2) is not None
    assert slots.acquire(3) is None


def test_renders_may_have_every_place():
    slots = StreamSlots(4)
    assert None not in [slots.acquire(1) for _ in range(4)]

    assert slots.acquire_for_reader(ADA) is None


def test_a_place_that_is_freed_is_there_again_once():
    slots = StreamSlots(1)
    slot = slots.acquire_for_reader(ADA)
    assert slot is not None
    slot.release()
    slot.release()

    assert slots.acquire_for_reader(ADA) is not None
    assert slots.acquire_for_reader(ADA) is None


def test_no_place_is_taken_where_there_is_none_to_read_at():
    slots = StreamSlots(1)
    slots.close()

    assert slots.acquire_for_reader(ADA) is None
    assert slots.acquire(1) is None


def test_one_reader_holds_a_share_and_leaves_the_rest():
    slots = StreamSlots(40, per_reader=10)
    held = [slots.acquire_for_reader(ADA) for _ in range(30)]

    assert [slot is not None for slot in held] == [True] * 10 + [False] * 20
    assert slots.acquire_for_reader(BOB) is not None
    assert held[0] is not None
    held[0].release()
    assert slots.acquire_for_reader(ADA) is not None
    assert slots.acquire_for_reader(ADA) is None


def test_public_readers_leave_half_to_members():
    slots = StreamSlots(40, per_reader=10)
    held = [slots.acquire_for_reader(reader) for reader in anonymous_readers(100)]

    assert sum(slot is not None for slot in held) == 15
    assert slots.acquire_for_reader(ADA) is not None
    assert held[0] is not None
    held[0].release()
    assert slots.acquire_for_reader(LogReader("198.51.100.7", public=True)) is not None


def test_the_last_places_are_for_renders_of_other_organizations():
    slots = StreamSlots(40)
    held = [slots.acquire(1) for _ in range(40)]

    assert sum(slot is not None for slot in held) == 35
    assert None not in [slots.acquire(2) for _ in range(5)]
    assert slots.acquire(3) is None
    assert held[0] is not None
    held[0].release()
    assert slots.acquire(1) is None
    assert slots.acquire(3) is not None
