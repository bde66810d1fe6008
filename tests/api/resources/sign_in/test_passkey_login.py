from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from api import HttpSettings, RateLimitSettings
from storage import Storage
from tests.api.passkeys import LOGIN, REGISTER, Browser, audited, bearing, code, with_passkey
from tests.api.world import Account, World
from tests.authenticator import ES256, RS256, UP, Authenticator
from tests.clock import ManualClock


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser.of(world)


@pytest.mark.parametrize("algorithm", [ES256, RS256])
@pytest.mark.parametrize("counts", [True, False])
def test_a_passkey_signs_its_account_in(world: World, browser: Browser, ada: Account, algorithm: int, counts: bool):
    authenticator = with_passkey(ada, Authenticator(algorithm, counts=counts))
    for _ in range(2):
        answered = browser.login(authenticator)
        assert (answered.status_code, set(answered.json)) == (200, {"token"})
        assert answered.headers["Cache-Control"] == "no-store"
        me = bearing(world, answered.json["token"]).simulate_get("/api/v0/user").json
        assert me["email"] == ada.email
    (passkey,) = ada.client.simulate_get("/api/v0/user/passkeys").json["passkeys"]
    assert passkey["last_used_at"] is not None
    entry = audited(world)[0]
    assert (entry.actor, entry.action) == (ada.email, "passkeyLoginFinalize")


def test_options_name_nobody(browser: Browser, ada: Account):
    with_passkey(ada)
    for body in ({}, {"email": ada.email}):
        options = browser.begun(LOGIN, **body)["options"]
        assert options["allowCredentials"] == []
        assert options["userVerification"] == "required"
        assert len(options["challenge"]) == 43


def test_options_need_no_body(world: World):
    answered = world.anonymous.simulate_post(f"{LOGIN}/options")
    assert (answered.status_code, answered.headers["Cache-Control"]) == (200, "no-store")


@pytest.mark.parametrize(
    ("body", "media_type", "expected"),
    [
        ("[]", "application/json", (422, "invalid_body")),
        ("{", "application/json", (400, "malformed_json")),
        ("{}", "text/plain", (415, "unsupported_media_type")),
    ],
)
def test_a_wrong_body_gets_no_options(world: World, body: str, media_type: str, expected: tuple[int, str]):
    headers = {"Content-Type": media_type}
    assert code(world.anonymous.simulate_post(f"{LOGIN}/options", body=body, headers=headers)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"origin": "https://evil.example.org"}, "passkey_assertion_failed"),
        ({"rp_id": "example.org"}, "passkey_assertion_failed"),
        ({"signature": b"\0" * 70}, "passkey_assertion_failed"),
        ({"handle": b"x" * 16}, "passkey_assertion_failed"),
        ({"challenge": "AAAA"}, "passkey_assertion_failed"),
        ({"response": {"signature": 7}}, "passkey_assertion_failed"),
        ({"credential_id": b"unknown"}, "passkey_unknown_credential"),
        ({"flags": UP}, "passkey_user_verification_required"),
    ],
)
def test_a_refusal_has_its_code(world: World, browser: Browser, ada: Account, given: dict[str, Any], expected: str):
    authenticator = with_passkey(ada)
    assert code(browser.login(authenticator, **given)) == (400, expected)
    entry = audited(world)[0]
    assert (entry.actor, entry.action, entry.note[:9]) == ("nobody", "passkeyLoginFinalize", "refused, ")
    assert browser.login(authenticator).status_code == 200


def test_a_challenge_lasts_300_seconds(world: World, browser: Browser, ada: Account):
    authenticator = with_passkey(ada)
    for seconds, status in ((299.999999, 200), (300, 400)):
        begun = browser.begun(LOGIN)
        assertion = authenticator.get(begun["options"])
        world.clock.advance(seconds)
        answered = browser.post(f"{LOGIN}/finalize", challenge_id=begun["challenge_id"], assertion=assertion)
        assert answered.status_code == status
    assert code(answered) == (400, "passkey_challenge_invalid")


def test_a_replayed_answer_is_refused(browser: Browser, ada: Account):
    authenticator = with_passkey(ada, Authenticator(counts=False))
    begun = browser.begun(LOGIN)
    assertion = authenticator.get(begun["options"])
    body = {"challenge_id": begun["challenge_id"], "assertion": assertion}
    assert browser.post(f"{LOGIN}/finalize", **body).status_code == 200
    assert code(browser.post(f"{LOGIN}/finalize", **body)) == (400, "passkey_challenge_invalid")
    again = browser.begun(LOGIN)["challenge_id"]
    refused = browser.post(f"{LOGIN}/finalize", challenge_id=again, assertion=assertion)
    assert code(refused) == (400, "passkey_assertion_failed")


def test_of_twenty_at_once_one_signs_in(browser: Browser, ada: Account):
    authenticator = with_passkey(ada, Authenticator(counts=False))
    begun = browser.begun(LOGIN)
    body = {"challenge_id": begun["challenge_id"], "assertion": authenticator.get(begun["options"])}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: browser.post(f"{LOGIN}/finalize", **body).status_code, range(20)))
    assert sorted(answers) == [200] + [400] * 19


def test_a_counter_that_went_back_is_refused(browser: Browser, ada: Account):
    authenticator = with_passkey(ada)
    assert browser.login(authenticator, sign_count=9).status_code == 200
    refused = browser.login(authenticator, sign_count=9)
    assert code(refused) == (400, "passkey_assertion_failed")
    assert browser.login(authenticator, sign_count=10).status_code == 200


def test_a_challenge_of_a_registration_signs_nobody_in(browser: Browser, ada: Account):
    authenticator = with_passkey(ada)
    begun = Browser.of(ada.world, ada.signed_in()).begun(REGISTER)
    assertion = authenticator.get(begun["options"])
    refused = browser.post(f"{LOGIN}/finalize", challenge_id=begun["challenge_id"], assertion=assertion)
    assert code(refused) == (400, "passkey_challenge_invalid")


def test_another_accounts_passkey_does_not_open_this_one(browser: Browser, ada: Account, bob: Account):
    authenticator, others = with_passkey(ada), with_passkey(bob)
    refused = browser.login(others, credential_id=authenticator.credential_id, handle=authenticator.handle)
    assert code(refused) == (400, "passkey_assertion_failed")


def test_the_passkey_of_a_closed_account_is_unknown(browser: Browser, ada: Account):
    authenticator = with_passkey(ada)
    begun = browser.begun(LOGIN)
    assert ada.client.simulate_delete("/api/v0/user").status_code == 204
    body = {"challenge_id": begun["challenge_id"], "assertion": authenticator.get(begun["options"])}
    assert code(browser.post(f"{LOGIN}/finalize", **body)) == (400, "passkey_unknown_credential")


def test_an_account_signs_in_a_limited_number_of_times(storage: Storage, clock: ManualClock, settings: HttpSettings):
    world = World.create(storage, clock, settings, RateLimitSettings(account_per_minute=3))
    ada, bob = (world.sign_up(f"{name}@example.org") for name in ("ada", "bob"))
    authenticators = with_passkey(ada), with_passkey(bob)
    clock.advance(60)
    browser = Browser.of(world)
    assert [browser.login(authenticators[0]).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert browser.login(authenticators[1]).status_code == 200
    assert len(storage.tokens.sessions(ada.user.id)) == 4
