"""Sign-in without a token: links, sign-ups and identities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from storage import (
    EmailTaken,
    EmailUnproven,
    LastIdentity,
    LastPasskey,
    NewPasskey,
    ProvenIdentity,
    Role,
    SignInLinkKind,
    SignUpClosed,
    SignUpMode,
    SignUpPolicy,
    Storage,
    User,
)
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


BEA = ProvenIdentity("google", "1001", "bea@example.org", verified=True, name="Bea")


def test_a_new_person_gets_an_account_and_comes_back_to_it(storage: Storage, user: User, clock: ManualClock):
    bea = storage.identities.sign_in(BEA, OPEN)
    assert (bea.email, bea.name, bea.personal_org_slug) == ("bea@example.org", "Bea", "bea-example-org")
    first = clock.now()
    clock.advance(60)
    assert storage.identities.sign_in(BEA, CLOSED) == bea
    (identity,) = storage.identities.of_user(bea.id)
    assert (identity.provider, identity.subject, identity.email) == ("google", "1001", "bea@example.org")
    assert (identity.created_at, identity.last_used_at) == (first, clock.now())


def test_a_person_without_a_name_gets_that_of_the_address(storage: Storage, user: User):
    assert storage.identities.sign_in(replace(BEA, name=""), OPEN).name == "bea"


def test_a_verified_address_leads_to_its_account(storage: Storage, user: User):
    proven = replace(BEA, email=user.email, name="Another")
    assert storage.identities.sign_in(proven, CLOSED) == user
    assert [each.subject for each in storage.identities.of_user(user.id)] == ["1001"]


@pytest.mark.parametrize("email", ["ann@example.org", "new@example.org", ""])
def test_an_unverified_address_leads_nowhere(storage: Storage, user: User, email: str):
    with pytest.raises(EmailUnproven):
        storage.identities.sign_in(replace(BEA, email=email, verified=False), OPEN)
    assert storage.users.all() == [user]
    assert storage.identities.of_user(user.id) == []


def test_the_subject_counts_when_the_address_changes(storage: Storage, user: User):
    """Also if the new address is another account's, or unverified."""
    bea = storage.identities.sign_in(BEA, OPEN)
    for email, verified in (("b@example.net", True), (user.email, True), (user.email, False)):
        assert storage.identities.sign_in(replace(BEA, email=email, verified=verified), CLOSED) == bea
        assert storage.identities.of_user(bea.id)[0].email == email
    assert storage.identities.of_user(user.id) == []


def test_a_subject_of_another_provider_is_another_person(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    other = storage.identities.sign_in(replace(BEA, provider="https://login", email="eve@example.org"), OPEN)
    assert other != bea


def test_another_subject_with_the_verified_address_is_linked(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    assert storage.identities.sign_in(replace(BEA, subject="1002"), CLOSED) == bea
    assert [each.subject for each in storage.identities.of_user(bea.id)] == ["1001", "1002"]


def test_twenty_sign_ins_of_a_new_person_make_one_account(storage: Storage, user: User):
    with ThreadPoolExecutor(20) as pool:
        users = list(pool.map(lambda _: storage.identities.sign_in(BEA, OPEN), range(20)))
    assert len(set(users)) == 1
    assert len(storage.users.all()) == 2
    assert len(storage.identities.of_user(users[0].id)) == 1


def test_twenty_people_with_the_owners_link_make_one_account(storage: Storage):
    token = storage.sign_in_links.owner()

    def sign_in(number: int) -> bool:
        try:
            storage.identities.sign_in(replace(BEA, subject=str(number), email=f"b{number}@x.org"), CLOSED, token)
        except SignUpClosed:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(sign_in, range(20))) == 1
    assert len(storage.users.all()) == 1


def test_who_may_not_sign_up_leaves_no_trace(storage: Storage, user: User):
    with pytest.raises(SignUpClosed):
        storage.identities.sign_in(BEA, CLOSED)
    assert storage.identities.sign_in(BEA, OPEN).email == "bea@example.org"


def test_who_has_an_account_does_not_use_up_the_owners_link(storage: Storage, user: User):
    token = storage.sign_in_links.owner()
    assert storage.identities.sign_in(replace(BEA, email=user.email), CLOSED, token) == user
    assert storage.sign_in_links.read(SignInLinkKind.OWNER, token) is not None


def test_a_closed_account_has_no_identities(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    storage.accounts.close(bea.id)
    assert storage.identities.of_user(bea.id) == []
    with pytest.raises(SignUpClosed):
        storage.identities.sign_in(BEA, CLOSED)
    assert storage.identities.sign_in(BEA, OPEN).id != bea.id


def test_the_last_identity_stays(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    storage.identities.sign_in(replace(BEA, provider="github", subject="7"), OPEN)
    first, second = storage.identities.of_user(bea.id)
    assert not storage.identities.remove(user.id, first.uuid, others_suffice=False)
    assert storage.identities.remove(bea.id, first.uuid, others_suffice=False)
    assert not storage.identities.remove(bea.id, first.uuid, others_suffice=False)
    with pytest.raises(LastIdentity, match="only way to sign in"):
        storage.identities.remove(bea.id, second.uuid, others_suffice=False)
    assert storage.identities.of_user(bea.id) == [second]


def test_the_last_identity_goes_where_others_suffice(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    (only,) = storage.identities.of_user(bea.id)
    assert storage.identities.remove(bea.id, only.uuid, others_suffice=True)
    assert storage.identities.of_user(bea.id) == []


def test_one_of_two_identities_stays_when_both_go_at_once(storage: Storage, user: User):
    bea = storage.identities.sign_in(BEA, OPEN)
    storage.identities.sign_in(replace(BEA, provider="github", subject="7"), OPEN)

    def remove(uuid: str) -> bool:
        try:
            return storage.identities.remove(bea.id, uuid, others_suffice=False)
        except LastIdentity:
            return False

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(remove, [each.uuid for each in storage.identities.of_user(bea.id)])) == 1
    assert len(storage.identities.of_user(bea.id)) == 1


def with_a_passkey(storage: Storage) -> tuple[User, str, str]:
    """Return a user with one passkey and one identity, and the UUIDs of both."""
    bea = storage.identities.sign_in(BEA, OPEN)
    new = NewPasskey(b"credential", b"key", 0, "aaguid", ())
    passkey = storage.passkeys.add(bea.id, b"h" * 16, new, "Key")
    return bea, passkey.uuid, storage.identities.of_user(bea.id)[0].uuid


def test_the_last_identity_may_go_where_a_passkey_is(storage: Storage, user: User):
    bea, passkey, identity = with_a_passkey(storage)
    assert storage.identities.remove(bea.id, identity, others_suffice=False)
    with pytest.raises(LastPasskey):
        storage.passkeys.remove(bea.id, passkey, others_suffice=False)


def test_the_last_passkey_may_go_where_an_identity_is(storage: Storage, user: User):
    bea, passkey, identity = with_a_passkey(storage)
    assert storage.passkeys.remove(bea.id, passkey, others_suffice=False) == 0
    with pytest.raises(LastIdentity):
        storage.identities.remove(bea.id, identity, others_suffice=False)


def test_one_stays_when_passkey_and_identity_go_at_once(storage: Storage, user: User):
    bea, passkey, identity = with_a_passkey(storage)
    removals = (
        lambda: storage.passkeys.remove(bea.id, passkey, others_suffice=False),
        lambda: storage.identities.remove(bea.id, identity, others_suffice=False),
    )
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(removal) for removal in removals]:
            with suppress(LastIdentity, LastPasskey):
                done.result()
    assert len(storage.passkeys.of_user(bea.id)) + len(storage.identities.of_user(bea.id)) == 1
