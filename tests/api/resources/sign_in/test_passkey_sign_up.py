from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from falcon import testing

from api import HttpSettings, IdentitySettings
from storage import Role, Storage
from tests.api.passkeys import SIGN_UP, Browser, audited, bearing, code, with_passkey
from tests.api.world import Account, World
from tests.authenticator import UP, Authenticator
from tests.clock import ManualClock


@pytest.fixture
def identity() -> IdentitySettings:
    return IdentitySettings(signup="open")


@pytest.fixture
def world(storage: Storage, clock: ManualClock, settings: HttpSettings, identity: IdentitySettings) -> World:
    world = World.create(storage, clock, settings, identity=identity)
    world.sign_up("first@example.org")
    return world


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser.of(world)


def begin(browser: Browser, email: str = "eve@example.org", name: str = "Eve") -> testing.Result:
    return browser.post(f"{SIGN_UP}/begin", email=email, name=name)


def mails(world: World) -> list[tuple[str, str, str]]:
    """Return recipient, kind and text of each mail that waits, and note that it was sent."""
    found = []
    while (mail := world.storage.mail.next()) is not None:
        letter = world.storage.mail.letter(mail)
        assert letter is not None
        found.append((mail.recipient, mail.kind, letter.text))
        world.storage.mail.sent(mail)
    return found


def link_of(world: World, kind: str, page: str) -> str:
    """Return the token of the only mail's link."""
    ((_, written, text),) = mails(world)
    assert written == kind
    (token,) = re.findall(rf"https://ci.example.org/login/{page}#([A-Za-z0-9_-]{{43}})\n", text)
    return str(token)


def test_a_person_signs_up_by_mail_and_signs_in_again(world: World, browser: Browser):
    answered = begin(browser, " Eve@Example.org ", "Eve")
    assert (answered.status_code, answered.content) == (204, b"")
    token = link_of(world, "verification", "verify")
    authenticator = Authenticator()
    answered = browser.sign_up(token, authenticator)

    assert (answered.status_code, answered.headers["Cache-Control"]) == (200, "no-store")
    user = answered.json["user"]
    assert (user["email"], user["name"]) == ("eve@example.org", "Eve")
    me = bearing(world, answered.json["token"]).simulate_get("/api/v0/user").json
    assert (me["uuid"], me["personal_org_slug"]) == (user["uuid"], "eve-example-org")
    (passkey,) = bearing(world, answered.json["token"]).simulate_get("/api/v0/user/passkeys").json["passkeys"]
    assert (passkey["nickname"], passkey["last_used_at"]) == ("Passkey", None)
    assert browser.login(authenticator).status_code == 200


def test_the_link_is_used_up_by_finalize_alone(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    for _ in range(3):
        browser.begun(SIGN_UP, verification_token=token)
    assert browser.sign_up(token, Authenticator()).status_code == 200
    assert code(browser.post(f"{SIGN_UP}/options", verification_token=token)) == (400, "passkey_token_invalid")


def test_a_refused_answer_keeps_the_link(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    begun = browser.begun(SIGN_UP, verification_token=token)
    wrong = Authenticator().create(begun["options"], origin="https://evil.example.org")
    body = {"challenge_id": begun["challenge_id"], "verification_token": token, "attestation": wrong}
    refused = browser.post(f"{SIGN_UP}/finalize", **body)
    assert code(refused) == (400, "passkey_registration_failed")
    assert "https://evil.example.org" in refused.json["error"]["message"]
    assert code(browser.post(f"{SIGN_UP}/finalize", **body)) == (400, "passkey_challenge_invalid")
    assert browser.sign_up(token, Authenticator()).status_code == 200


def test_a_link_lasts_24_hours(world: World, browser: Browser):
    for seconds, accepted in ((86_399.999999, True), (86_400, False)):
        token = world.storage.sign_in_links.verification(f"eve{seconds}@example.org", "Eve")
        world.clock.advance(seconds)
        answered = browser.post(f"{SIGN_UP}/options", verification_token=token)
        assert (answered.status_code == 200) is accepted


def test_a_link_that_expires_before_finalize_is_refused(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    world.clock.advance(86_399)
    begun = browser.begun(SIGN_UP, verification_token=token)
    attestation = Authenticator().create(begun["options"])
    world.clock.advance(1)
    body = {"challenge_id": begun["challenge_id"], "verification_token": token, "attestation": attestation}
    assert code(browser.post(f"{SIGN_UP}/finalize", **body)) == (400, "passkey_token_invalid")


def test_a_challenge_of_one_link_is_none_of_another(world: World, browser: Browser):
    links = world.storage.sign_in_links
    mine, other = links.verification("eve@example.org", "Eve"), links.verification("ada@example.org", "Ada")
    begun = browser.begun(SIGN_UP, verification_token=mine)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    stolen = browser.post(f"{SIGN_UP}/finalize", verification_token=other, **body)
    assert code(stolen) == (400, "passkey_challenge_invalid")
    assert browser.post(f"{SIGN_UP}/finalize", verification_token=mine, **body).status_code == 200


@pytest.mark.parametrize("token", ["", " ", "x" * 43, "é", "'; --"])
def test_an_unknown_token_is_refused(browser: Browser, token: str):
    answered = browser.post(f"{SIGN_UP}/options", verification_token=token)
    expected = (400, "passkey_token_invalid") if token.strip() else (422, "invalid_body")
    assert code(answered) == expected


def test_a_magic_link_signs_nobody_up(world: World, browser: Browser):
    user = world.storage.users.by_email("first@example.org")
    assert user is not None
    token = world.storage.sign_in_links.magic_link(user)
    assert code(browser.post(f"{SIGN_UP}/options", verification_token=token)) == (400, "passkey_token_invalid")


def test_of_twenty_at_once_one_makes_the_account(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    prepared = [browser.prepared(SIGN_UP, verification_token=token) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda body: browser.post(f"{SIGN_UP}/finalize", **body).status_code, prepared))
    assert sorted(answers) == [200] + [400] * 19
    assert [user.email for user in world.storage.users.all()] == ["first@example.org", "eve@example.org"]


def test_of_twenty_with_one_challenge_one_makes_the_account(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    begun = browser.begun(SIGN_UP, verification_token=token)
    attestation = Authenticator().create(begun["options"])
    body = {"challenge_id": begun["challenge_id"], "verification_token": token, "attestation": attestation}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: browser.post(f"{SIGN_UP}/finalize", **body), range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 19


def test_an_address_that_was_taken_meanwhile_is_refused(world: World, browser: Browser):
    links = world.storage.sign_in_links
    first, second = links.verification("eve@example.org", "Eve"), links.verification("eve@example.org", "Eve")
    begun = browser.begun(SIGN_UP, verification_token=second)
    attestation = Authenticator().create(begun["options"])
    assert browser.sign_up(first, Authenticator()).status_code == 200
    taken = (409, "passkey_signup_email_taken")
    assert code(browser.post(f"{SIGN_UP}/options", verification_token=second)) == taken
    body = {"challenge_id": begun["challenge_id"], "verification_token": second, "attestation": attestation}
    assert code(browser.post(f"{SIGN_UP}/finalize", **body)) == taken


def test_a_passkey_of_another_account_makes_none(world: World, browser: Browser):
    known = with_passkey(world.sign_up("ada@example.org"))
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    again = Authenticator(credential_id=known.credential_id)
    assert code(browser.sign_up(token, again)) == (409, "passkey_already_registered")
    assert world.storage.users.by_email("eve@example.org") is None
    assert browser.sign_up(token, Authenticator()).status_code == 200


def test_without_user_verification_no_account_is_made(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    begun = browser.begun(SIGN_UP, verification_token=token)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"], flags=UP)}
    refused = browser.post(f"{SIGN_UP}/finalize", verification_token=token, **body)
    assert code(refused) == (400, "passkey_user_verification_required")
    assert world.storage.users.by_email("eve@example.org") is None
    assert browser.sign_up(token, Authenticator()).status_code == 200


def test_who_has_an_account_gets_a_magic_link(world: World, browser: Browser):
    assert begin(browser, "first@example.org").status_code == 204
    token = link_of(world, "has_account", "recover")
    answered = browser.recover(token, Authenticator())
    assert answered.json["user"]["email"] == "first@example.org"


@pytest.mark.parametrize("identity", [IdentitySettings(signup="closed"), IdentitySettings(signup_domains=("a.org",))])
def test_who_may_not_sign_up_is_told_by_mail_alone(world: World, browser: Browser):
    answered = begin(browser)
    assert (answered.status_code, answered.content) == (204, b"")
    ((recipient, kind, text),) = mails(world)
    assert (recipient, kind) == ("eve@example.org", "sign_up_closed")
    assert "may sign up" in text
    assert "#" not in text


@pytest.mark.parametrize("identity", [IdentitySettings(signup="closed")])
def test_mail_to_strangers_waits_no_longer_than_a_link(world: World, browser: Browser):
    begin(browser)
    world.clock.advance(24 * 3600)
    (expired,) = world.storage.mail.expire()
    assert (expired.recipient, expired.kind) == ("eve@example.org", "sign_up_closed")


@pytest.mark.parametrize("identity", [IdentitySettings(signup="closed")])
def test_a_sign_up_that_closed_meanwhile_is_refused(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    assert code(browser.post(f"{SIGN_UP}/options", verification_token=token)) == (403, "signup_closed")


@pytest.mark.parametrize("identity", [IdentitySettings()])
def test_who_was_invited_signs_up(world: World, browser: Browser, ada: Account):
    invite = world.storage.invites.draft("eve@example.org", Role.MEMBER)
    stored = world.storage.invites.create(ada.org_id, ada.user.id, invite, 10)
    begin(browser)
    token = link_of(world, "verification", "verify")
    begun = browser.begun(SIGN_UP, verification_token=token)
    attestation = Authenticator().create(begun["options"])
    world.storage.invites.revoke(ada.org_id, stored.uuid)
    body = {"challenge_id": begun["challenge_id"], "verification_token": token, "attestation": attestation}
    assert code(browser.post(f"{SIGN_UP}/finalize", **body)) == (403, "signup_closed")


@pytest.mark.parametrize("email", ["nobody", "a@b@c", "@", "eve@example.org\nBcc: all@example.org", "x" * 200])
def test_what_is_no_address_gets_no_mail(world: World, browser: Browser, email: str):
    assert begin(browser, email).status_code == 204
    assert mails(world) == []


def test_the_owner_signs_up_by_a_link_of_the_host(world: World, browser: Browser):
    token = world.storage.sign_in_links.owner()
    for email in (None, "", "nobody"):
        answered = browser.post(f"{SIGN_UP}/options", verification_token=token, email=email, name="Olga")
        assert code(answered) == (422, "invalid_body")
        assert answered.json["error"]["message"].startswith("email:")
    answered = browser.sign_up(token, Authenticator(), email=" Olga@Example.org", name="Olga")
    assert answered.json["user"]["email"] == "olga@example.org"
    assert answered.json["user"]["name"] == "Olga"
    refused = browser.post(f"{SIGN_UP}/options", verification_token=token, email="eve@example.org", name="Eve")
    assert code(refused) == (400, "passkey_token_invalid")


def test_of_twenty_with_the_owners_link_one_makes_an_account(world: World, browser: Browser):
    token = world.storage.sign_in_links.owner()
    prepared = [
        browser.prepared(SIGN_UP, verification_token=token, email=f"olga{number}@example.org") for number in range(20)
    ]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda body: browser.post(f"{SIGN_UP}/finalize", **body), prepared))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 19
    assert len(world.storage.users.all()) == 2


@pytest.mark.parametrize("identity", [IdentitySettings(signup="closed")])
def test_the_owner_signs_up_whatever_the_policy_is(world: World, browser: Browser):
    answered = browser.sign_up(world.storage.sign_in_links.owner(), Authenticator(), email="olga@example.org")
    assert answered.status_code == 200
    assert answered.json["user"]["name"] is None


def test_an_address_in_the_body_changes_no_verified_one(world: World, browser: Browser):
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    answered = browser.sign_up(token, Authenticator(), email="first@example.org", name="First")
    assert (answered.json["user"]["email"], answered.json["user"]["name"]) == ("eve@example.org", "Eve")


def test_asking_leaves_nothing_in_the_audit(world: World, browser: Browser):
    begin(browser)
    token = world.storage.sign_in_links.verification("eve@example.org", "Eve")
    browser.begun(SIGN_UP, verification_token=token)
    assert audited(world) == []
    browser.sign_up(token, Authenticator())
    (entry,) = audited(world)
    assert (entry.actor, entry.action) == ("eve@example.org", "passkeySignupFinalize")
