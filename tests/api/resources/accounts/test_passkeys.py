from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import ProvenIdentity, SignUpPolicy
from tests.api.passkeys import LOGIN, REGISTER, Browser, bearing, code, with_passkey
from tests.api.world import Account, World
from tests.authenticator import UP, Authenticator, base64url


@pytest.fixture
def browser(ada: Account) -> Browser:
    """A browser in which ada is signed in."""
    return Browser.of(ada.world, ada.signed_in())


def test_an_account_has_several_passkeys(world: World, ada: Account, browser: Browser):
    made = browser.register(Authenticator(), nickname=" Laptop ")
    assert (made.status_code, set(made.json)) == (
        200,
        {"uuid", "nickname", "aaguid", "created_at", "last_used_at"},
    )
    world.clock.advance(1)
    browser.register(Authenticator(), nickname=None)
    browser.register(Authenticator(), nickname=" ")
    passkeys = ada.client.simulate_get("/api/v0/user/passkeys").json["passkeys"]
    assert [each["nickname"] for each in passkeys] == ["Laptop", "Passkey", "Passkey"]
    assert passkeys[0] == made.json


def test_an_authenticator_with_a_passkey_is_excluded(ada: Account, browser: Browser):
    assert browser.begun(REGISTER)["options"]["excludeCredentials"] == []
    authenticator = with_passkey(ada)
    options = browser.begun(REGISTER)["options"]
    assert [each["id"] for each in options["excludeCredentials"]] == [base64url(authenticator.credential_id)]
    assert options["user"]["id"] == base64url(authenticator.handle)


def test_the_same_passkey_is_not_registered_twice(ada: Account, bob: Account, browser: Browser):
    again = Authenticator(credential_id=with_passkey(ada).credential_id)
    assert code(browser.register(again)) == (409, "passkey_already_registered")
    others = Browser.of(bob.world, bob.signed_in())
    assert code(others.register(again)) == (409, "passkey_already_registered")


def test_a_challenge_is_one_accounts(ada: Account, bob: Account, browser: Browser):
    begun = browser.begun(REGISTER)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    stolen = Browser.of(bob.world, bob.signed_in()).post(f"{REGISTER}/finalize", **body)
    assert code(stolen) == (400, "passkey_challenge_invalid")
    assert browser.post(f"{REGISTER}/finalize", **body).status_code == 200


def test_a_challenge_of_a_login_registers_nothing(world: World, browser: Browser):
    options = browser.begun(REGISTER)["options"]
    begun = Browser.of(world).begun(LOGIN)
    attestation = Authenticator().create({**options, "challenge": begun["options"]["challenge"]})
    refused = browser.post(f"{REGISTER}/finalize", challenge_id=begun["challenge_id"], attestation=attestation)
    assert code(refused) == (400, "passkey_challenge_invalid")


def test_of_twenty_at_once_one_registers(ada: Account, browser: Browser):
    begun = browser.begun(REGISTER)
    body = {"challenge_id": begun["challenge_id"], "attestation": Authenticator().create(begun["options"])}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: browser.post(f"{REGISTER}/finalize", **body).status_code, range(20)))
    assert sorted(answers) == [200] + [400] * 19
    assert len(ada.world.storage.passkeys.of_user(ada.user.id)) == 1


def test_without_user_verification_none_is_registered(browser: Browser):
    begun = browser.begun(REGISTER)
    attestation = Authenticator().create(begun["options"], flags=UP)
    refused = browser.post(f"{REGISTER}/finalize", challenge_id=begun["challenge_id"], attestation=attestation)
    assert code(refused) == (400, "passkey_user_verification_required")


def test_an_account_with_fifty_passkeys_gets_no_more(ada: Account, browser: Browser):
    for _ in range(50):
        ada.world.clock.advance(1)
        with_passkey(ada)
    refused = browser.register(Authenticator())
    assert code(refused) == (400, "passkey_registration_failed")
    assert "at most 50" in refused.json["error"]["message"]


def test_a_deleted_passkey_signs_nobody_in(ada: Account, browser: Browser):
    first, second = with_passkey(ada), with_passkey(ada)
    uuid = ada.world.storage.passkeys.of_user(ada.user.id)[0].uuid
    assert browser.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}").status_code == 204
    assert code(browser.login(first)) == (400, "passkey_unknown_credential")
    assert browser.login(second).status_code == 200
    assert browser.client.simulate_get("/api/v0/user").status_code == 200
    again = browser.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}")
    assert code(again) == (404, "passkey_not_found")


def test_another_accounts_passkey_is_not_found(ada: Account, bob: Account):
    with_passkey(ada)
    uuid = ada.world.storage.passkeys.of_user(ada.user.id)[0].uuid
    assert code(bob.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}")) == (404, "passkey_not_found")


def test_without_mail_the_last_passkey_stays(world: World, ada: Account, browser: Browser):
    world.engine.sends_mail = False
    authenticator = with_passkey(ada)
    uuid = world.storage.passkeys.of_user(ada.user.id)[0].uuid
    refused = browser.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}")
    assert code(refused) == (409, "passkey_last_credential")
    assert browser.login(authenticator).status_code == 200


def test_who_signs_in_with_a_provider_needs_no_passkey(world: World, ada: Account, browser: Browser):
    world.engine.sends_mail = False
    with_passkey(ada)
    proven = ProvenIdentity("https://accounts.example.org", "1", ada.email, verified=True, name="Ada")
    world.storage.identities.sign_in(proven, SignUpPolicy())
    uuid = world.storage.passkeys.of_user(ada.user.id)[0].uuid
    assert browser.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}").status_code == 204
    assert browser.client.simulate_get("/api/v0/user").status_code == 200


def test_with_the_last_passkey_all_other_sessions_end(world: World, ada: Account, browser: Browser):
    other = ada.signed_in()
    offer = ada.signed_in().simulate_post("/api/v0/auth/cli/code").json
    token = Browser.of(world).login(with_passkey(ada)).json["token"]
    uuid = world.storage.passkeys.of_user(ada.user.id)[0].uuid
    assert browser.client.simulate_delete(f"/api/v0/user/passkeys/{uuid}").status_code == 204
    assert browser.client.simulate_get("/api/v0/user").status_code == 200, "the caller's own session stays"
    for client in (other, bearing(world, token)):
        assert client.simulate_get("/api/v0/user").status_code == 401
    assert world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json=offer).status_code == 400
    assert ada.client.simulate_get("/api/v0/user").status_code == 200, "API keys stay"
