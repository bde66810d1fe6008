"""The scopes of API keys, with each operation that the service has."""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import Any

import pytest
from falcon import testing

import api.operations
from api import ApiError
from api.doors.http import operations_of
from api.operations.operation import GET, Call, Operation
from storage import Role, Scope, TokenLimits
from tests.api.world import Account, BuildPath, World
from tests.e2e.pipelines import one
from tests.state import run_sql

NOUNS = [import_module(f"api.operations.{each.name}") for each in iter_modules(api.operations.__path__)]
EVERY = {each.id: each for each in chain.from_iterable(map(operations_of, NOUNS)) if not each.callers.owners}
_TERMINALS = {"openTerminal", "getTerminal", "typeInTerminal", "resizeTerminal", "closeTerminal"}
FORKING = {"runOnFork", "listDiskFiles", "takeDiskFile", "proveTests", "cancelProof", *_TERMINALS}
STARTING = {
    "createBuild",
    "startBuild",
    "createBuildBySource",
    "cancelBuild",
    "stopCulpritSearch",
    "rebuildBuild",
    "retryBuild",
    "retryJob",
}
HAVE = {
    Scope.READ: {Scope.READ},
    Scope.START: {Scope.READ, Scope.START},
    Scope.FORK: {Scope.READ, Scope.FORK},
    Scope.ADMIN: set(Scope),
}


def key_of(account: Account, *scopes: Scope, org: int | None = None, pipeline: int | None = None) -> str:
    limits = TokenLimits(scopes or None, org, pipeline)
    return account.world.storage.tokens.create_api_key(account.user.id, "limited", limits=limits)[1]


def client_of(account: Account, token: str) -> testing.TestClient:
    return testing.TestClient(account.world.app, headers={"Authorization": f"Bearer {token}"})


def code(answered: testing.Result) -> str | None:
    return answered.json["error"]["code"] if answered.status_code == 403 else None


def refused(performed: Operation[Any], call: Call) -> bool:
    """Tell whether the scope of a token is why an operation is refused, before its body is read."""
    try:
        performed.require_rights(call, ())
    except ApiError as error:
        return error.problem.code == "token_scope"
    return False


def test_the_scope_of_each_operation_is_the_least():
    for each in EVERY.values():
        expected = Scope.READ if each.method is GET and each.role is Role.MEMBER else Scope.ADMIN
        expected = Scope.START if each.id in STARTING else Scope.FORK if each.id in FORKING else expected
        assert each.scope is expected, each.id
    assert len(EVERY) > 100


@pytest.mark.parametrize("scope", list(Scope))
def test_a_key_does_what_its_scope_allows_and_no_more(ada: Account, scope: Scope):
    caller = ada.world.storage.tokens.caller(key_of(ada, scope))
    call = Call(None, caller)  # type: ignore[arg-type] # nothing is found or done
    for each in EVERY.values():
        assert refused(each, call) is (each.scope not in HAVE[scope]), each.id


def test_a_key_for_one_place_needs_a_path_within_it(ada: Account):
    caller = ada.world.storage.tokens.caller(key_of(ada, org=ada.org_id))
    call = Call(None, caller)  # type: ignore[arg-type] # nothing is found or done
    assert [each.id for each in EVERY.values() if not refused(each, call)] == ["getCurrentUser"]


def test_a_key_of_a_pipeline_reaches_no_other(ada: Account):
    web, other = ada.pipeline("web"), ada.pipeline("other")
    inside, outside = web.build(), other.build()
    pipeline_id = inside.stored.pipeline_id
    client = client_of(ada, key_of(ada, Scope.START, org=ada.org_id, pipeline=pipeline_id))

    assert client.simulate_get(inside.path).status_code == 200
    assert client.simulate_post(f"{inside.path}/rebuild").status_code == 201
    assert client.simulate_get("/api/v0/user").status_code == 200
    for path in (outside.path, other.path, ada.path, f"{ada.path}/pipelines", "/api/v0/organizations"):
        assert code(client.simulate_get(path)) == "token_scope", path
    assert code(client.simulate_post(f"{outside.path}/rebuild")) == "token_scope"
    assert code(client.simulate_patch(web.path, json={"name": "new"})) == "token_scope"
    _logs(client, inside, outside)


def _logs(client: testing.TestClient, inside: BuildPath, outside: BuildPath) -> None:
    """Check that logs, which no operation reads, have the same limits."""
    outside.job().write(b"hello\n")
    inside.job().write(b"hello\n")
    assert client.simulate_get(f"{inside.job().path}/log").status_code == 200
    assert code(client.simulate_get(f"{outside.job().path}/log")) == "token_scope"
    assert client.simulate_get(f"/v0/jobs/{outside.job().uuid}/logs").status_code == 404


def test_a_key_of_an_organization_reaches_no_other(world: World, ada: Account, bob: Account):
    ada.join(bob, Role.ADMIN)
    client = client_of(ada, key_of(ada, org=ada.org_id))
    assert client.simulate_get(f"{ada.path}/pipelines").status_code == 200
    assert code(client.simulate_get(f"{bob.path}/pipelines")) == "token_scope"
    theirs = bob.pipeline("web").path.rpartition("/")[2]
    assert client.simulate_get(f"/badges/{bob.org}/{theirs}.svg").status_code == 404


def test_limits_are_asked_for_and_shown(ada: Account):
    web = ada.pipeline("web").path.rpartition("/")[2]
    body = {"description": "agent", "scopes": ["fork", "start"], "only": f"{ada.org}/{web}"}
    made = ada.signed_in().simulate_post("/api/v0/user/api-tokens", json=body)
    assert made.status_code == 201, made.text
    shown = made.json["api_token"]
    assert (shown["scopes"], shown["only"]) == (["start", "fork"], f"{ada.org}/{web}")

    for wrong, status in (({"only": "nobody"}, 404), ({"only": f"{ada.org}/gone"}, 404), ({"scopes": ["all"]}, 422)):
        assert ada.signed_in().simulate_post("/api/v0/user/api-tokens", json={**body, **wrong}).status_code == status


def test_a_key_starts_nothing_when_its_budget_is_spent(ada: Account):
    build = ada.pipeline("web").build()
    job = build.job()
    body = {"description": "agent", "scopes": ["start", "fork"], "budget_cents": 5}
    made = ada.signed_in().simulate_post("/api/v0/user/api-tokens", json=body)
    assert (made.json["api_token"]["budget_cents"], made.json["api_token"]["spent_cents"]) == (5, 0)
    client = client_of(ada, made.json["token"])
    again = client.simulate_post(f"{build.path}/rebuild")
    key = ada.world.storage.tokens.caller(made.json["token"])
    assert key is not None
    assert BuildPath(ada, f"{build.path.rpartition('/')[0]}/{again.json['number']}").stored.budget_id == key.token_id

    run_sql(ada.world.storage.directory, "UPDATE tokens SET spent_cents = 5 WHERE id = :id", id=key.token_id)
    builds = build.path.rpartition("/")[0]
    asked = {"branch": "main", "commit": "0" * 40, "pipeline_ir": one("true")}
    unknown = {"branch": "main", "commit": "0" * 40, "repo_name": "acme/new", "source_slug": "ci", "source_b64": "YQ=="}
    refused = (
        (f"{build.path}/rebuild", {}),
        (builds, asked),
        (f"{ada.path}/builds", unknown),
        (f"{job.path}/runs", {"command": "true"}),
    )
    for path, given in refused:
        answered = client.simulate_post(path, json=given)
        assert (answered.status_code, answered.json["error"]["code"]) == (402, "budget_exhausted"), path
    assert client.simulate_get(build.path).status_code == 200
    assert build.get().status_code == 200


@pytest.mark.parametrize("scopes", [None, ["admin"], ["start", "admin"]])
def test_a_key_with_a_budget_may_not_have_all_rights(ada: Account, scopes: list[str] | None):
    body = {"description": "agent", "scopes": scopes, "budget_cents": 5}
    made = ada.signed_in().simulate_post("/api/v0/user/api-tokens", json=body)
    assert made.status_code == 422
    assert made.json["error"]["message"] == "budget_cents: expected scopes without admin, such as start and fork"


def test_a_key_without_limits_does_all(ada: Account):
    assert ada.client.simulate_post(f"{ada.path}/pipelines", json={}).status_code == 422
    listed = ada.client.simulate_get("/api/v0/user/api-tokens").json["api_tokens"]
    assert [(each["scopes"], each["only"]) for each in listed] == [(None, None)]
