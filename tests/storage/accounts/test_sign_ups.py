from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import EmailTaken, Role, SignInLinkKind, SignUpClosed, SignUpMode, SignUpPolicy, Storage, User

OPEN = SignUpPolicy(SignUpMode.OPEN)
INVITED = SignUpPolicy(SignUpMode.INVITED)
CLOSED = SignUpPolicy(SignUpMode.CLOSED)


def test_the_first_account_needs_the_owners_link(storage: Storage):
    with pytest.raises(SignUpClosed, match="the first account"):
        storage.sign_ups.create("ada@example.org", "Ada", OPEN)
    token = storage.sign_in_links.owner()
    assert storage.sign_ups.create("ada@example.org", "Ada", CLOSED, token).email == "ada@example.org"
    with pytest.raises(SignUpClosed, match="used or expired"):
        storage.sign_ups.create("eve@example.org", "Eve", OPEN, token)


def test_an_owners_link_makes_one_account_of_twenty_at_once(storage: Storage):
    token = storage.sign_in_links.owner()

    def sign_up(number: int) -> bool:
        try:
            storage.sign_ups.create(f"a{number}@example.org", "A", CLOSED, token)
        except SignUpClosed:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(sign_up, range(20))) == 1
    assert len(storage.users.all()) == 1


def test_a_taken_address_does_not_use_up_the_link(storage: Storage, user: User):
    token = storage.sign_in_links.owner()
    with pytest.raises(EmailTaken):
        storage.sign_ups.create(user.email, "Again", OPEN, token)
    assert storage.sign_in_links.read(SignInLinkKind.OWNER, token) is not None


def test_open_takes_anybody_and_closed_nobody(storage: Storage, user: User):
    assert storage.sign_ups.create("b@example.org", "B", OPEN).name == "B"
    with pytest.raises(SignUpClosed, match="no one may sign up"):
        storage.sign_ups.create("c@example.org", "C", CLOSED)


def test_invited_needs_a_pending_invite_of_the_address(storage: Storage, user: User):
    acme = storage.organizations.create("Acme", "", user.id)
    draft = storage.invites.draft("b@example.org", Role.MEMBER)
    invite = storage.invites.create(acme.id, user.id, draft, 10)
    with pytest.raises(SignUpClosed, match="invited"):
        storage.sign_ups.create("c@example.org", "C", INVITED)
    storage.sign_ups.check("b@example.org", INVITED)
    storage.invites.revoke(acme.id, invite.uuid)
    with pytest.raises(SignUpClosed, match="invited"):
        storage.sign_ups.create("b@example.org", "B", INVITED)


def test_only_the_allowed_domains_sign_up(storage: Storage, user: User):
    policy = SignUpPolicy(SignUpMode.OPEN, frozenset({"example.org"}))
    storage.sign_ups.create("b@example.org", "B", policy)
    for address in ("b@example.com", "b@evil-example.org", "b@sub.example.org", "b@example.org@evil.net"):
        with pytest.raises(SignUpClosed, match="no one with an address"):
            storage.sign_ups.create(address, "B", policy)
