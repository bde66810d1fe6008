"""Machine accounts: programs of an organization, which nobody signs in as."""

from __future__ import annotations

from typing import Any

import apsw
import pytest
from falcon import testing

from storage import Role, TokenKind
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World

SETTINGS = "/ada-example-org/settings"


def made(ada: Account, name: str = "deploy-bot", role: str = "member") -> str:
    answered = ada.client.simulate_post(f"{ada.path}/machine-accounts", json={"name": name, "role": role})
    assert answered.status_code == 201, answered.text
    assert answered.json["address"] == f"ada-example-org/{name}"
    return f"{ada.path}/machine-accounts/{name}"


def key(ada: Account, path: str, **fields: Any) -> Any:
    answered = ada.signed_in().simulate_post(f"{path}/api-tokens", json={"description": "an agent", **fields})
    assert answered.status_code == 201, answered.text
    return answered.json


def client(ada: Account, made_key: Any) -> testing.TestClient:
    return testing.TestClient(ada.world.app, headers={"Authorization": f"Bearer {made_key['token']}"})


def test_its_key_works_in_its_organization_alone(ada: Account, bob: Account):
    path = made(ada, role="admin")
    machine = client(ada, key(ada, path))

    assert machine.simulate_get("/api/v0/user").json["email"] == "ada-example-org/deploy-bot"
    assert machine.simulate_get(f"{ada.path}/pipelines").status_code == 200
    assert machine.simulate_get(f"{bob.path}/pipelines").status_code == 404
    assert machine.simulate_post("/api/v0/organizations", json={"name": "Own"}).status_code == 403
    refused = machine.simulate_patch("/api/v0/user", json={"name": "Ada"})
    assert (refused.status_code, refused.json["error"]["code"]) == (403, "token_scope")
    assert machine.simulate_post(f"{path}/api-tokens", json={"description": "more"}).status_code == 403
    wrong = ada.signed_in().simulate_post(f"{path}/api-tokens", json={"description": "x", "only": "bob-example-org"})
    assert wrong.status_code == 404


def test_it_is_the_author_of_builds_and_in_the_audit(ada: Account, pipeline: PipelinePath):
    machine = client(ada, key(ada, made(ada), scopes=["start"]))
    body = {
        "branch": "main",
        "commit": "c0ffee",
        "pipeline_ir": '{"version": "0", "steps": [{"type": "command", "key": "t", "cmd": "true"}]}',
    }

    started = machine.simulate_post(f"{pipeline.path}/builds", json=body)

    assert started.status_code == 201, started.text
    shown = Browser.of(ada).get(f"/ada-example-org/pipelines/{pipeline.path.rpartition('/')[2]}").text
    assert "ada-example-org/deploy-bot" in shown
    audit = ada.client.simulate_get(f"{ada.path}/audit").json["data"]
    assert "ada-example-org/deploy-bot" in {each["actor"] for each in audit}
    assert "ada-example-org/deploy-bot" in {
        each["subject"] for each in audit if each["action"] == "createMachineAccount"
    }


def test_nobody_signs_in_as_it(world: World, ada: Account):
    made(ada)
    address = "ada-example-org/deploy-bot"
    machine = world.storage.machine_accounts.all(ada.org_id)[0]

    assert world.storage.users.by_email(address) is None
    assert world.storage.users.by_uuid(machine.uuid) is None
    for make in (world.storage.tokens.create_session, world.storage.tokens.create_api_key):
        with pytest.raises(apsw.ConstraintError, match="no sessions, and keys for its organization alone"):
            make(machine.id, "a way in, or out of its organization")
    begun = world.anonymous.simulate_post("/api/v0/auth/recover/begin", json={"email": address})
    assert begun.status_code == 204
    assert [each for each in world.storage.tokens.of_user(machine.id) if each.kind is TokenKind.SESSION] == []


def test_its_keys_end_when_it_is_removed(ada: Account, pipeline: PipelinePath):
    path = made(ada)
    machine = client(ada, key(ada, path))
    assert machine.simulate_get("/api/v0/user").status_code == 200

    assert ada.client.simulate_delete(path).status_code == 204

    assert machine.simulate_get("/api/v0/user").status_code == 401
    assert ada.client.simulate_get(f"{ada.path}/machine-accounts").json["data"] == []
    made(ada)  # the name is free again
    assert machine.simulate_get("/api/v0/user").status_code == 401


def test_it_goes_with_its_organization(ada: Account):
    machine = client(ada, key(ada, made(ada)))

    assert ada.signed_in().simulate_delete("/api/v0/user").status_code == 204

    assert machine.simulate_get("/api/v0/user").status_code == 401


def test_it_keeps_no_owner_and_is_no_member(ada: Account, bob: Account):
    made(ada)
    assert (
        ada.client.simulate_post(f"{ada.path}/machine-accounts", json={"name": "boss", "role": "owner"}).json["error"][
            "code"
        ]
        == "invalid_role"
    )
    machine = ada.world.storage.machine_accounts.all(ada.org_id)[0]
    members = f"{ada.path}/members"
    assert [each["email"] for each in ada.client.simulate_get(members).json["data"]] == [ada.email]
    assert ada.client.simulate_patch(f"{members}/{machine.uuid}", json={"role": "owner"}).status_code == 404
    bob.join(ada, Role.MEMBER)
    refused = bob.client.simulate_post(f"{ada.path}/machine-accounts", json={"name": "mine", "role": "member"})
    assert refused.status_code == 403


def test_its_requests_count_with_its_organization(ada: Account):
    machines = [client(ada, key(ada, made(ada, name))) for name in ("one", "two")]
    left = [int(each.simulate_get("/api/v0/user/api-tokens").headers["RateLimit-Remaining"]) for each in machines]
    assert left[1] < left[0] or left[0] == left[1] == 0


def test_names_are_taken_once_and_bounded(ada: Account):
    path = f"{ada.path}/machine-accounts"
    made(ada)
    again = ada.client.simulate_post(path, json={"name": "deploy-bot", "role": "member"})
    assert (again.status_code, again.json["error"]["code"]) == (409, "machine_account_exists")
    for number in range(99):
        made(ada, f"bot-{number}")
    more = ada.client.simulate_post(path, json={"name": "one-more", "role": "member"})
    assert (more.status_code, more.json["error"]["code"]) == (409, "too_many_machine_accounts")


def test_an_admin_makes_it_and_its_key_on_the_page(ada: Account):
    browser = Browser.of(ada)
    browser.send(SETTINGS, "ada-example-org/machine-accounts", name="deploy-bot", role="member")
    shown = browser.send(
        SETTINGS,
        "ada-example-org/machine-accounts/keys",
        machine="deploy-bot",
        description="deploys",
        scopes="start",
        budget_cents="10",
    )
    assert "ci_" in shown.text
    page = browser.get(SETTINGS).text
    assert "ada-example-org/deploy-bot" in page
    assert "spent 0 of 10 cents" in page
    browser.send(SETTINGS, "ada-example-org/machine-accounts/deploy-bot/remove")
    assert "ada-example-org/deploy-bot" not in browser.get(SETTINGS).text
