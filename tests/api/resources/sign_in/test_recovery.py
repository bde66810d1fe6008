from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from api import HttpSettings, RateLimitSettings
from storage import Storage
from tests.api.passkeys import LOGIN, RECOVER, SIGN_UP, Browser, audited, bearing, code, with_passkey
from tests.api.world import Account, World
from tests.authenticator import UP, Authenticator
from tests.clock import ManualClock


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser.of(world)


def magic_link(account: Account) -> str:
    return account.world.storage.sign_in_links.magic_link(account.user)


def test_a_lost_passkey_is_replaced_by_mail(world: World, browser: Browser, ada: Account):
    lost = with_passkey(ada)
    session, offer = ada.signed_in(), ada.signed_in().simulate_post("/api/v0/auth/cli/code").json
    answered = browser.post(f"{RECOVER}/begin", email=" Ada@Example.org")
    assert (answered.status_code, answered.content) == (204, b"")
    mail = world.storage.mail.next()
    assert mail is not None
    letter = world.storage.mail.letter(mail)
    assert letter is not None
    assert (mail.recipient, mail.kind) == (ada.email, "magic_link")
    token = letter.text.partition("/login/recover#")[2].split()[0]
    found = Authenticator()
    answered = browser.recover(token, found)

    assert (answered.status_code, answered.headers["Cache-Control"]) == (200, "no-store")
    assert answered.json["user"] == {"uuid": ada.user.uuid, "email": ada.email, "name": "Ada"}
    assert bearing(world, answered.json["token"]).simulate_get("/api/v0/user").status_code == 200
    assert session.simulate_get("/api/v0/user").status_code == 401, "other sessions end"
    assert world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json=offer).status_code == 400
    assert ada.client.simulate_get("/api/v0/user").status_code == 200, "API keys stay"
    assert browser.login(found).status_code == browser.login(lost).status_code == 200
    assert found.handle == lost.handle
    entry = next(each for each in audited(world) if each.action == "recoverFinalize")
    assert entry.actor == ada.email


def test_the_link_is_used_up_by_finalize_alone(browser: Browser, ada: Account):
    token = magic_link(ada)
    for _ in range(3):
        browser.begun(RECOVER, magic_link_token=token)
    assert browser.recover(token, Authenticator()).status_code == 200
    assert code(browser.post(f"{RECOVER}/options", magic_link_token=token)) == (400, "passkey_token_invalid")


def test_a_link_lasts_15_minutes(world: World, browser: Browser, ada: Account):
    for seconds, status in ((899.999999, 200), (900, 400)):
        token = magic_link(ada)
        world.clock.advance(seconds)
        assert browser.post(f"{RECOVER}/options", magic_link_token=token).status_code == status


def test_a_link_that_expires_before_finalize_is_refused(world: World, browser: Browser, ada: Account):
    token = magic_link(ada)
    world.clock.advance(899)
    begun = browser.begun(RECOVER, magic_link_token=token)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    world.clock.advance(1)
    refused = browser.post(f"{RECOVER}/finalize", magic_link_token=token, **body)
    assert code(refused) == (400, "passkey_token_invalid")
    assert world.storage.passkeys.of_user(ada.user.id) == []


def test_a_challenge_is_bound_to_its_link(browser: Browser, ada: Account, bob: Account):
    mine, others = magic_link(ada), magic_link(bob)
    begun = browser.begun(RECOVER, magic_link_token=others)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    refused = browser.post(f"{RECOVER}/finalize", magic_link_token=mine, **body)
    assert code(refused) == (400, "passkey_challenge_invalid")


def test_links_and_challenges_of_a_sign_up_recover_nothing(world: World, browser: Browser, ada: Account):
    verification = world.storage.sign_in_links.verification(ada.email, "Ada")
    owner = world.storage.sign_in_links.owner()
    for token in (verification, owner, "x" * 43):
        assert code(browser.post(f"{RECOVER}/options", magic_link_token=token)) == (400, "passkey_token_invalid")
    begun = browser.begun(SIGN_UP, verification_token=owner, email="olga@example.org")
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    refused = browser.post(f"{RECOVER}/finalize", magic_link_token=magic_link(ada), **body)
    assert code(refused) == (400, "passkey_challenge_invalid")


def test_of_twenty_at_once_one_recovers(browser: Browser, ada: Account):
    token = magic_link(ada)
    prepared = [browser.prepared(RECOVER, magic_link_token=token) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda body: browser.post(f"{RECOVER}/finalize", **body).status_code, prepared))
    assert sorted(answers) == [200] + [400] * 19
    assert len(ada.world.storage.passkeys.of_user(ada.user.id)) == 1


def test_a_link_of_a_closed_account_is_invalid(browser: Browser, ada: Account):
    token = magic_link(ada)
    ada.client.simulate_delete("/api/v0/user")
    assert code(browser.post(f"{RECOVER}/options", magic_link_token=token)) == (400, "passkey_token_invalid")


def test_an_address_without_account_gets_no_link(world: World, browser: Browser):
    answered = browser.post(f"{RECOVER}/begin", email="nobody@example.org")
    assert (answered.status_code, answered.content) == (204, b"")
    mail = world.storage.mail.next()
    assert mail is not None
    assert mail.kind == "no_account"
    world.clock.advance(24 * 3600)
    (expired,) = world.storage.mail.expire()
    assert expired.recipient == "nobody@example.org"


def test_another_passkey_of_the_same_credential_is_refused(browser: Browser, ada: Account, bob: Account):
    taken = Authenticator(credential_id=with_passkey(bob).credential_id)
    token = magic_link(ada)
    assert code(browser.recover(token, taken)) == (409, "passkey_already_registered")
    assert browser.recover(token, Authenticator()).status_code == 200


@pytest.mark.parametrize("path", [f"{RECOVER}/begin", f"{SIGN_UP}/begin"])
def test_the_time_of_an_answer_does_not_tell_who_exists(world: World, ada: Account, path: str):
    """Time of the processor, because on a busy machine the other one tells nothing."""
    browser = Browser.of(world)
    times: dict[str, list[float]] = {ada.email: [], "nobody@example.org": []}
    for _ in range(100):
        for email, measured in times.items():
            world.clock.advance(3600)
            begun = time.thread_time()
            assert browser.post(path, email=email, name="A Name").status_code == 204
            measured.append(time.thread_time() - begun)
            mail = world.storage.mail.next()
            assert mail is not None
            world.storage.mail.sent(mail)
    known, unknown = (statistics.median(measured) for measured in times.values())
    assert 0.75 < known / unknown < 1 / 0.75


def test_without_user_verification_nothing_is_recovered(browser: Browser, ada: Account):
    token = magic_link(ada)
    begun = browser.begun(RECOVER, magic_link_token=token)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"], flags=UP)}
    refused = browser.post(f"{RECOVER}/finalize", magic_link_token=token, **body)
    assert code(refused) == (400, "passkey_user_verification_required")
    assert browser.recover(token, Authenticator()).status_code == 200


def test_a_login_answer_recovers_nothing(browser: Browser, ada: Account):
    authenticator = with_passkey(ada)
    begun = browser.begun(LOGIN)
    body = {"challenge_id": begun["challenge_id"], "attestation": authenticator.get(begun["options"])}
    refused = browser.post(f"{RECOVER}/finalize", magic_link_token=magic_link(ada), **body)
    assert code(refused) == (400, "passkey_registration_failed")


def test_an_account_is_recovered_a_limited_number_of_times(
    storage: Storage, clock: ManualClock, settings: HttpSettings
):
    world = World.create(storage, clock, settings, RateLimitSettings(account_per_minute=3))
    token = magic_link(world.sign_up("ada@example.org"))
    browser = Browser.of(world)
    asked = [browser.post(f"{RECOVER}/options", magic_link_token=token).status_code for _ in range(3)]
    assert asked == [200, 200, 200]
    assert code(browser.post(f"{RECOVER}/finalize", **a_guess(token))) == (429, "rate_limited")
    unknown = browser.post(f"{RECOVER}/finalize", **a_guess("x" * 43))
    assert code(unknown) == (400, "passkey_token_invalid")


def a_guess(token: str) -> dict[str, object]:
    return {"magic_link_token": token, "challenge_id": "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e", "attestation": {}}
