"""The audit of an organization: its admins see it, on a page and in the API."""

from __future__ import annotations

import re

from storage import Role
from tests.api.console.browser import Browser
from tests.api.world import Account, World

PAGE = "/ada-example-org/audit"


def test_admins_see_who_changed_what(ada: Account):
    browser = Browser.of(ada)
    browser.send("/ada-example-org/settings", "ada-example-org/secrets", name="KEY", value="hidden-value")
    ada.world.storage.audit.write(
        "root", "org set", "ada-example-org", "--weight 2", origin="pts/0", organization=ada.org
    )
    shown = browser.get(PAGE).text
    for text in ("setOrganizationSecret", ada.email, "127.0.0.1", "org set", "root"):
        assert text in shown
    assert "pts/0" not in shown
    assert "hidden-value" not in shown
    listed = ada.client.simulate_get(f"{ada.path}/audit").json["data"]
    assert [(each["action"], each["origin"]) for each in listed] == [
        ("org set", None),
        ("setOrganizationSecret", "127.0.0.1"),
    ]


def test_the_audit_is_a_list_of_pages(ada: Account):
    for number in range(51):
        ada.world.storage.audit.write(ada.email, "createBuild", f"demo/{number}", "", organization=ada.org)
    shown = Browser.of(ada).get(PAGE).text
    older = re.search(r"\?before=(\d+)", shown)
    assert older is not None
    assert "demo/0<" not in shown
    assert "demo/0<" in Browser.of(ada).get(f"{PAGE}?before={older[1]}").text


def test_others_see_no_audit(world: World, ada: Account, bob: Account):
    bob.world.storage.audit.write(bob.email, "createBuild", "of-bob", "", organization=bob.org)
    assert "of-bob" not in Browser.of(ada).get(PAGE).text
    assert Browser.of(bob).get(PAGE).status_code == 404
    bob.join(ada, Role.MEMBER)
    assert Browser.of(bob).get(PAGE).status_code == 403
    assert "/audit" not in Browser.of(bob).get("/ada-example-org").text
    assert Browser(world).get(PAGE).status_code == 303
