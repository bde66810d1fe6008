"""Members, invites and secrets of an organization, and its billing."""

from __future__ import annotations

import re

from storage import Role, SecretScope
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World

SETTINGS = "/ada-example-org/settings"
BILLING = "/ada-example-org/billing"


def test_an_invite_is_shown_once_and_revoked(ada: Account):
    browser = Browser.of(ada)
    invited = browser.send(SETTINGS, "ada-example-org/invites", email="eve@example.org", role="member")
    assert invited.status_code == 200
    assert "https://ci.example.org/invites#" in invited.text
    token = invited.text.partition("/invites#")[2].partition("<")[0]
    (invite,) = ada.world.storage.invites.pending(ada.org_id)
    assert token not in browser.get(SETTINGS).text
    browser.send(SETTINGS, f"ada-example-org/invites/{invite.uuid}/revoke")
    assert ada.world.storage.invites.pending(ada.org_id) == []


def test_roles_change_and_members_leave(ada: Account, bob: Account):
    bob.join(ada, Role.MEMBER)
    path = f"ada-example-org/members/{bob.user.uuid}"
    Browser.of(ada).send(SETTINGS, f"{path}/role", role="admin")
    assert ada.world.storage.organizations.role(ada.org_id, bob.user.id) is Role.ADMIN
    left = Browser.of(bob).send(SETTINGS, f"{path}/remove")
    assert left.status_code == 303
    assert ada.world.storage.organizations.role(ada.org_id, bob.user.id) is None
    alone = Browser.of(ada).send(SETTINGS, f"ada-example-org/members/{ada.user.uuid}/remove")
    assert alone.status_code == 409


def test_logins_at_registries_are_write_only(ada: Account):
    browser = Browser.of(ada)
    login = {"host": "ghcr.io", "username": "ci", "password": "hidden-value"}
    browser.send(SETTINGS, "ada-example-org/registry-logins", **login)
    shown = browser.get(SETTINGS).text
    assert "ghcr.io" in shown
    assert "hidden-value" not in shown
    browser.send(SETTINGS, "ada-example-org/registry-logins/ghcr.io/delete")
    assert ada.world.storage.registry_logins.of_organization(ada.org_id) == []
    assert "hidden-value" not in browser.get("/ada-example-org/audit").text


def test_the_deploy_key_of_an_organization_is_made_and_replaced(ada: Account):
    browser, keys = Browser.of(ada), []
    for _ in range(2):
        browser.send(SETTINGS, "ada-example-org/deploy-key/rotate")
        key = ada.world.storage.organization_keys.of(ada.org_id)
        assert key is not None
        shown = browser.get(SETTINGS).text
        assert key.public_key in shown
        assert key.private_key.splitlines()[1] not in shown
        keys.append(key.public_key)
    assert len(set(keys)) == 2


def test_secrets_of_an_organization_are_write_only(ada: Account):
    browser = Browser.of(ada)
    browser.send(SETTINGS, "ada-example-org/secrets", name="KEY", value="hidden-value")
    assert "hidden-value" not in browser.get(SETTINGS).text
    assert [each.name for each in ada.world.storage.secrets.names(SecretScope(ada.org_id))] == ["KEY"]


def test_pages_of_an_organization_are_for_members(world: World, ada: Account, bob: Account):
    for page in (SETTINGS, BILLING):
        assert Browser.of(bob).get(page).status_code == 404
        assert Browser(world).get(page).status_code == 303
    bob.join(ada, Role.MEMBER)
    assert 'action="./../ada-example-org/invites"' not in Browser.of(bob).get(SETTINGS).text


def test_the_billing_shows_balance_costs_and_ledger(ada: Account, pipeline: PipelinePath):
    pipeline.build().job().run_for(3600)
    shown = Browser.of(ada).get(BILLING).text
    balance = ada.world.storage.ledger.balance(ada.org_id)
    assert f"<dd>{balance / 100:.2f} USD</dd>" in shown
    assert "VM lease debit" in shown
    assert "demo #1" in shown
    assert re.search(r"/builds/1/jobs/[^/]+\">[^<]+</a> <span class=\"figure\">sandbox · 1 h · \d+\.\d\d USD<", shown)
    assert Browser.of(ada).get(f"{BILLING}?before=1").text.count("Nothing was paid or spent") == 1
    assert Browser.of(ada).get(f"{BILLING}?before=x").status_code == 200


def test_an_unknown_coupon_is_refused_on_a_page(ada: Account):
    refused = Browser.of(ada).send(BILLING, "ada-example-org/billing/coupons", code="NOPE")
    assert refused.status_code in {404, 422}
    assert "<h1>" in refused.text
