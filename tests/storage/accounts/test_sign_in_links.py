from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import SignInLinkKind, Storage, User
from tests.clock import ManualClock


def test_a_link_is_read_many_times_and_taken_once(storage: Storage):
    token = storage.sign_in_links.verification("ada@example.org", "Ada")
    for _ in range(2):
        link = storage.sign_in_links.read(SignInLinkKind.VERIFICATION, token)
        assert link is not None
        assert (link.email, link.name, link.user_id) == ("ada@example.org", "Ada", None)
    assert storage.sign_in_links.take(SignInLinkKind.VERIFICATION, token) == link
    assert storage.sign_in_links.take(SignInLinkKind.VERIFICATION, token) is None
    assert storage.sign_in_links.read(SignInLinkKind.VERIFICATION, token) is None


def test_a_link_of_one_kind_is_none_of_another(storage: Storage, user: User):
    token = storage.sign_in_links.magic_link(user)
    assert storage.sign_in_links.take(SignInLinkKind.VERIFICATION, token) is None
    assert storage.sign_in_links.take(SignInLinkKind.OWNER, token) is None
    taken = storage.sign_in_links.take(SignInLinkKind.MAGIC_LINK, token)
    assert taken is not None
    assert taken.user_id == user.id


@pytest.mark.parametrize(("kind", "minutes"), [("verification", 1440), ("magic_link", 15), ("owner", 1440)])
def test_a_link_expires(storage: Storage, user: User, clock: ManualClock, kind: SignInLinkKind, minutes: int):
    links = storage.sign_in_links
    made = {
        "verification": lambda: links.verification("b@example.org", "B"),
        "magic_link": lambda: links.magic_link(user),
        "owner": links.owner,
    }
    token = made[kind]()
    clock.advance(seconds=minutes * 60, microseconds=-1)
    assert links.read(SignInLinkKind(kind), token) is not None
    clock.advance(microseconds=1)
    assert links.take(SignInLinkKind(kind), token) is None


def test_one_of_twenty_at_once_takes_a_link(storage: Storage, user: User):
    token = storage.sign_in_links.magic_link(user)
    with ThreadPoolExecutor(20) as pool:
        taken = list(pool.map(lambda _: storage.sign_in_links.take(SignInLinkKind.MAGIC_LINK, token), range(20)))
    assert sum(link is not None for link in taken) == 1


def test_a_closed_account_has_no_links(storage: Storage, user: User):
    token = storage.sign_in_links.magic_link(user)
    storage.accounts.close(user.id)
    assert storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, token) is None
