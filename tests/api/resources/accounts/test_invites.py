from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, Parts, RateLimitSettings, create_app
from storage import Role, Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine

ACCEPT = "/api/v0/invites/accept"
WEEK = 7 * 24 * 3600


def invite(account: Account, email: str = "bob@example.org", role: object = "member") -> testing.Result:
    return account.client.simulate_post(f"{account.path}/invites", json={"email": email, "role": role})


def accept(account: Account, token: object) -> testing.Result:
    return account.client.simulate_post(ACCEPT, json={"token": token})


def refusal(answered: testing.Result) -> tuple[str, str]:
    return answered.json["error"]["code"], answered.json["error"]["message"]


def test_an_invite_makes_a_member(ada: Account, bob: Account):
    made = invite(ada, "  Bob@Example.org ", "admin")
    assert made.status_code == 201
    assert (made.json["email"], made.json["role"]) == ("bob@example.org", "admin")
    assert len(made.json["token"]) == 43
    assert made.headers["Cache-Control"] == "no-store"

    accepted = accept(bob, made.json["token"])
    assert accepted.status_code == 200
    assert accepted.json["slug"] == ada.org
    assert ada.world.storage.organizations.role(ada.org_id, bob.user.id) is Role.ADMIN


def test_a_token_is_shown_once_and_stored_nowhere(ada: Account):
    token = invite(ada).json["token"]
    listed = ada.client.simulate_get(f"{ada.path}/invites").json["data"]

    assert [row["token"] for row in listed] == [None]
    for file in ada.world.storage.directory.iterdir():
        assert not file.is_file() or token.encode() not in file.read_bytes()


def test_only_acceptable_invites_are_listed(ada: Account, clock: ManualClock):
    first = invite(ada, "one@example.org")
    invite(ada, "two@example.org")
    assert ada.client.simulate_delete(f"{ada.path}/invites/{first.json['id']}").status_code == 204
    assert [row["email"] for row in ada.client.simulate_get(f"{ada.path}/invites").json["data"]] == ["two@example.org"]
    clock.advance(WEEK)
    assert ada.client.simulate_get(f"{ada.path}/invites").json["data"] == []


def another(ada: Account, bob: Account, made: Any) -> str:
    return "x" * 43


def used(ada: Account, bob: Account, made: Any) -> str:
    assert accept(bob, made["token"]).status_code == 200
    return str(made["token"])


def revoked(ada: Account, bob: Account, made: Any) -> str:
    assert ada.client.simulate_delete(f"{ada.path}/invites/{made['id']}").status_code == 204
    return str(made["token"])


def over(ada: Account, bob: Account, made: Any) -> str:
    ada.world.clock.advance(WEEK)
    return str(made["token"])


def of_somebody_else(ada: Account, bob: Account, made: Any) -> str:
    return str(invite(ada, "eve@example.org").json["token"])


def of_a_member(ada: Account, bob: Account, made: Any) -> str:
    bob.join(ada, Role.MEMBER)
    return str(made["token"])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (another, "no invite has this token: ask for a new one"),
        (used, "the invite was accepted already"),
        (revoked, "the invite was revoked"),
        (over, "the invite is over: ask for another one"),
        (of_somebody_else, "the invite is for another e-mail address than yours"),
        (of_a_member, "you are a member of the organization already"),
    ],
)
def test_an_invite_that_does_not_let_in_says_why(ada: Account, bob: Account, spoil: Callable[..., str], why: str):
    token = spoil(ada, bob, invite(ada).json)
    answered = accept(bob, token)
    assert (answered.status_code, *refusal(answered)) == (422, "invite_unacceptable", why)


def test_an_invite_holds_to_the_last_moment(ada: Account, bob: Account, clock: ManualClock):
    token = invite(ada).json["token"]
    clock.advance(WEEK - 0.000_001)
    assert accept(bob, token).status_code == 200


def test_an_organization_without_members_takes_no_new_one(ada: Account, bob: Account):
    token = invite(ada).json["token"]
    assert ada.client.simulate_delete("/api/v0/user").status_code == 204
    assert refusal(accept(bob, token)) == ("invite_unacceptable", "the organization is closed")


def test_of_twenty_that_accept_at_once_one_does(ada: Account, bob: Account):
    token = invite(ada).json["token"]
    with ThreadPoolExecutor(20) as threads:
        statuses = list(threads.map(lambda _: accept(bob, token).status_code, range(20)))
    assert sorted(statuses) == [200] + [422] * 19


@pytest.mark.parametrize(
    ("email", "role", "code"),
    [
        ("ada@example.org", "member", "invite_invalid"),
        (" ADA@example.org", "member", "invite_invalid"),
        ("twice@example.org", "member", "invite_invalid"),
        ("nobody", "member", "invite_invalid"),
        ("a b@example.org", "member", "invite_invalid"),
        ("", "member", "invite_invalid"),
        ("x@example.org\nBcc: y@example.org", "member", "invite_invalid"),
        ("new@example.org", "owner", "invalid_role"),
        ("new@example.org", "king", "invalid_role"),
        ("new@example.org", None, "invalid_body"),
        ("x" * 250 + "@e.org", "member", "invalid_body"),
    ],
)
def test_what_cannot_be_invited(ada: Account, email: str, role: object, code: str):
    assert invite(ada, "twice@example.org").status_code == 201
    answered = invite(ada, email, role)
    assert (answered.status_code, refusal(answered)[0]) == (422, code)


def test_an_invite_of_another_organization_is_not_found(ada: Account, bob: Account):
    there = invite(bob, "eve@example.org").json["id"]
    assert ada.client.simulate_delete(f"{ada.path}/invites/{there}").status_code == 404


def test_the_token_goes_to_the_address_by_mail(storage: Storage, ada: Account):
    made = invite(ada)

    mail = storage.mail.next()
    assert mail is not None
    letter = storage.mail.letter(mail)
    assert letter is not None
    assert (mail.recipient, mail.kind, letter.subject) == ("bob@example.org", "invite", "Invite to ada-example-org")
    assert f"https://ci.example.org/invites#{made.json['token']}" in letter.text
    assert "https://ci.example.org/api/v0/invites/accept" in letter.text
    assert f"{mail.expires_at:%Y-%m-%d}" == made.json["expires_at"][:10]


def test_a_refused_invite_sends_no_mail(storage: Storage, ada: Account):
    assert invite(ada, "ada@example.org").status_code == 422
    assert storage.mail.next() is None


@pytest.mark.parametrize(
    "email",
    ["a,b@c", "a@[", "ada@example.org,eve@example.org", "<eve@example.org>", '"a b"@c.org', "a@b\nBcc: c@d", "a@"],
)
def test_only_one_address_is_invited(ada: Account, email: str):
    answered = invite(ada, email)
    assert (answered.status_code, refusal(answered)[0]) == (422, "invite_invalid")
    assert ada.client.simulate_get(f"{ada.path}/invites").json["data"] == []


def test_one_account_sends_a_limited_number_of_invites_a_day(
    storage: Storage, clock: ManualClock, settings: HttpSettings
):
    limits = RateLimitSettings(invites_per_day=2)
    app = create_app(storage, FakeEngine(storage, clock), settings, Parts(clock=clock, rate_limits=limits))
    world = World(storage, FakeEngine(storage, clock), clock, app)
    ada, bob = world.sign_up("ada@example.org"), world.sign_up("bob@example.org")
    bob.join(ada, Role.ADMIN)
    first = invite(ada, "one@example.org").json
    clock.advance(3600)
    assert invite(ada, "two@example.org").status_code == 201
    assert ada.client.simulate_delete(f"{ada.path}/invites/{first['id']}").status_code == 204

    refused = invite(ada, "three@example.org")
    assert (refused.status_code, refusal(refused)[0]) == (429, "rate_limited")
    assert refused.headers["Retry-After"] == str(23 * 3600)
    assert (
        bob.client.simulate_post(f"{ada.path}/invites", json={"email": "x@example.org", "role": "member"}).status_code
        == 201
    )
    clock.advance(23 * 3600)
    assert invite(ada, "three@example.org").status_code == 201
