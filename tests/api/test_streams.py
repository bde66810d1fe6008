from __future__ import annotations

from api.streams import Streams


def test_readers_leave_places_for_renders():
    streams = Streams(8)
    readers = [streams.take_to_read() for _ in range(6)]
    assert None not in readers
    assert streams.take_to_read() is None

    assert streams.take() is not None
    assert streams.take() is not None
    assert streams.take() is None


def test_renders_may_have_every_place():
    streams = Streams(4)
    assert None not in [streams.take() for _ in range(4)]

    assert streams.take_to_read() is None


def test_a_place_that_is_freed_is_there_again_once():
    streams = Streams(1)
    place = streams.take_to_read()
    assert place is not None
    place.free()
    place.free()

    assert streams.take_to_read() is not None
    assert streams.take_to_read() is None


def test_no_place_is_taken_where_there_is_none_to_read_at():
    streams = Streams(1)
    streams.close()

    assert streams.take_to_read() is None
    assert streams.take() is None
