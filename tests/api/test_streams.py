from __future__ import annotations

from api.streams import Reader, Streams

ADA, BOB = Reader("ada", public=False), Reader("bob", public=False)


def strangers(count: int) -> list[Reader]:
    return [Reader(f"192.0.2.{number}", public=True) for number in range(count)]


def test_readers_leave_places_for_renders():
    streams = Streams(8)
    readers = [streams.take_to_read(ADA) for _ in range(6)]
    assert None not in readers
    assert streams.take_to_read(ADA) is None

    assert streams.take() is not None
    assert streams.take() is not None
    assert streams.take() is None


def test_renders_may_have_every_place():
    streams = Streams(4)
    assert None not in [streams.take() for _ in range(4)]

    assert streams.take_to_read(ADA) is None


def test_a_place_that_is_freed_is_there_again_once():
    streams = Streams(1)
    place = streams.take_to_read(ADA)
    assert place is not None
    place.free()
    place.free()

    assert streams.take_to_read(ADA) is not None
    assert streams.take_to_read(ADA) is None


def test_no_place_is_taken_where_there_is_none_to_read_at():
    streams = Streams(1)
    streams.close()

    assert streams.take_to_read(ADA) is None
    assert streams.take() is None


def test_one_reader_holds_a_share_and_leaves_the_rest():
    streams = Streams(40, share=10)
    held = [streams.take_to_read(ADA) for _ in range(30)]

    assert [place is not None for place in held] == [True] * 10 + [False] * 20
    assert streams.take_to_read(BOB) is not None
    assert held[0] is not None
    held[0].free()
    assert streams.take_to_read(ADA) is not None
    assert streams.take_to_read(ADA) is None


def test_public_readers_leave_half_to_members():
    streams = Streams(40, share=10)
    held = [streams.take_to_read(reader) for reader in strangers(100)]

    assert sum(place is not None for place in held) == 15
    assert streams.take_to_read(ADA) is not None
    assert held[0] is not None
    held[0].free()
    assert streams.take_to_read(Reader("198.51.100.7", public=True)) is not None
