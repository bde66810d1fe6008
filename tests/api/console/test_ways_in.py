"""The forms of an account for passkeys, identities and its end."""

from __future__ import annotations

import json

from storage import ProvenIdentity, Role, SignUpMode, SignUpPolicy
from tests.api.console.browser import Browser
from tests.api.console.test_account import actions
from tests.api.world import Account
from tests.authenticator import Authenticator

ADD = "account/passkeys"


def test_a_passkey_is_added_and_deleted(ada: Account):
    browser = Browser.of(ada)
    fields = browser.fields("/account", ADD)
    begun = browser.post(f"/{ADD}/options", fields).json
    made = Authenticator().create(begun["options"])
    credential = json.dumps({"challenge_id": begun["challenge_id"], "attestation": made})
    hostile = '"><script>alert(1)</script>'
    answered = browser.post(f"/{ADD}", {**fields, "credential": credential, "nickname": hostile})
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../account#passkeys")
    (passkey,) = ada.world.storage.passkeys.of_user(ada.user.id)
    assert passkey.nickname == hostile
    assert "<script>alert" not in browser.get("/account").text

    assert browser.send("/account", f"account/passkeys/{passkey.uuid}/delete").status_code == 303
    assert actions(ada)[-2:] == ["passkeyRegisterFinalize", "deletePasskey"]
    assert browser.get("/account").status_code == 200, "the session that deletes the last passkey goes on"


def test_a_broken_credential_adds_none(ada: Account):
    browser = Browser.of(ada)
    for credential in ("", "[]", "{}", '{"challenge_id": 1, "attestation": 2}', "{"):
        answered = browser.send("/account", ADD, credential=credential)
        assert answered.status_code in {400, 422}
        assert "<h1>" in answered.text
    assert ada.world.storage.passkeys.of_user(ada.user.id) == []


def test_the_challenge_needs_the_form_token(ada: Account):
    browser = Browser.of(ada)
    assert browser.post(f"/{ADD}/options", {"form_token": "0" * 64}).status_code == 403


def test_passkeys_and_identities_of_others_stay(ada: Account, bob: Account):
    mallory = Browser.of(bob)
    token = mallory.fields("/account", "account/sign-out")
    strange = "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"
    assert mallory.post(f"/account/passkeys/{strange}/delete", token).status_code == 404
    assert mallory.post(f"/account/identities/{strange}/delete", token).status_code == 404


def test_an_identity_is_listed_and_deleted(ada: Account):
    proven = ProvenIdentity("https://issuer.example", "1001", ada.email, verified=True, name="<b>Ada</b>")
    ada.world.storage.identities.sign_in(proven, SignUpPolicy(SignUpMode.CLOSED, frozenset()))
    browser = Browser.of(ada)
    assert "https://issuer.example" in browser.get("/account").text
    (identity,) = ada.world.storage.identities.of_user(ada.user.id)
    assert browser.send("/account", f"account/identities/{identity.uuid}/delete").status_code == 303
    assert ada.world.storage.identities.of_user(ada.user.id) == []
    assert actions(ada)[-1] == "deleteIdentity"


def test_an_account_is_closed_only_with_its_address(ada: Account):
    browser = Browser.of(ada)
    refused = browser.send("/account", "account/close", confirmation="bob@example.org")
    assert refused.status_code == 422
    assert "nothing was deleted" in refused.text
    closed = browser.send("/account", "account/close", confirmation=" Ada@example.org")
    assert (closed.status_code, closed.headers["Location"]) == (303, "./../login")
    assert browser.cookies == {}
    assert ada.client.simulate_get("/api/v0/user").status_code == 401


def test_a_sole_owner_reads_why_the_account_stays(ada: Account, bob: Account):
    bob.join(ada, Role.MEMBER)
    refused = Browser.of(ada).send("/account", "account/close", confirmation="ada@example.org")
    assert refused.status_code == 409
    assert "About this error" in refused.text
    assert ada.client.simulate_get("/api/v0/user").status_code == 200
