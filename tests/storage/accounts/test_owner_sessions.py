"""Sessions of the host's owner: a link begins one, and each ends in time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from storage import Storage
from tests.clock import ManualClock


def test_a_link_begins_one_session(storage: Storage):
    sessions = storage.owner_sessions
    link = sessions.link("root")
    opened = sessions.open(link)
    assert opened is not None
    session, token = opened
    assert session.operator == "root"
    assert session.opened_at is not None
    assert sessions.find(token) == session
    assert sessions.open(link) is None
    assert sessions.open(token) is None, "the token of a session is no link"


def test_two_who_open_a_link_at_once_get_one_session(storage: Storage):
    link = storage.owner_sessions.link("root")
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(storage.owner_sessions.open, [link] * 8))
    assert len([each for each in opened if each is not None]) == 1


def test_the_token_of_a_link_is_that_of_no_session(storage: Storage):
    assert storage.owner_sessions.find(storage.owner_sessions.link("root")) is None
    assert storage.owner_sessions.find("") is None


def test_a_link_is_good_for_15_minutes(storage: Storage, clock: ManualClock):
    early, late = storage.owner_sessions.link("root"), storage.owner_sessions.link("root")
    clock.advance(15 * 60 - 1)
    assert storage.owner_sessions.open(early) is not None
    clock.advance(1)
    assert storage.owner_sessions.open(late) is None


def test_a_session_ends_after_an_hour_of_use(storage: Storage, clock: ManualClock):
    opened = storage.owner_sessions.open(storage.owner_sessions.link("root"))
    assert opened is not None
    for _ in range(59):
        clock.advance(60)
        assert storage.owner_sessions.find(opened[1]) is not None
    clock.advance(60)
    assert storage.owner_sessions.find(opened[1]) is None


def test_sessions_are_ended_one_or_all(storage: Storage, clock: ManualClock):
    sessions = storage.owner_sessions
    opened = [sessions.open(sessions.link("root")) for _ in range(3)]
    tokens = [each[1] for each in opened if each is not None]
    unused = sessions.link("root")
    sessions.end(tokens[0])
    assert [sessions.find(each) is not None for each in tokens] == [False, True, True]
    assert sessions.end_all() == 3, "two sessions and a link"
    assert [sessions.find(each) for each in tokens] == [None] * 3
    assert sessions.open(unused) is None
    sessions.link("root")
    clock.advance(3600)
    assert sessions.end_all() == 0, "one that is over does not count"
