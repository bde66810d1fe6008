"""Each endpoint: its success, its allowed callers, and its refusals."""

from __future__ import annotations

import re

import pytest
from falcon import testing

from tests.contract.reference import ENDPOINTS, REQUESTS, Endpoint
from tests.contract.scene import Scene, is_ceremony

TABLE = "Endpoints"

ALL = list(ENDPOINTS.values())
NEED_A_TOKEN = [endpoint for endpoint in ALL if endpoint.who not in {"public", "log"}]
IN_AN_ORGANIZATION = [endpoint for endpoint in NEED_A_TOKEN if "{org}" in endpoint.path]
FOR_ADMINS = [endpoint for endpoint in ALL if endpoint.who == "admin"]
FOR_SESSIONS = [endpoint for endpoint in ALL if endpoint.who == "session"]
WITH_A_BODY = list(dict.fromkeys(field.endpoint for field in REQUESTS))
WRONG = "no-token-of-this-service"
NOUNS = {
    "org": "organization_not_found",
    "pipeline": "pipeline_not_found",
    "number": "build_not_found",
    "job_id": "job_not_found",
    "service": "service_not_found",
    "user_id": "member_not_found",
    "machine": "machine_account_not_found",
    "terminal": "terminal_not_found",
    "preview": "preview_not_found",
    "code": "route_not_found",
    "uuid": "passkey_not_found",
    "delivery": "notification_delivery_not_found",
    "delivery_id": "delivery_not_found",
    "entry": "merge_queue_entry_not_found",
    "proof": "proof_not_found",
    "quarantined": "quarantined_test_not_found",
}
IDS = {
    "api-tokens": "api_token_not_found",
    "sessions": "session_not_found",
    "invites": "invite_not_found",
    "schedules": "schedule_not_found",
    "notifications": "notification_not_found",
    "repos": "repo_not_found",
    "workspaces": "bitbucket_workspace_not_found",
    "artifacts": "artifact_not_found",
    "identities": "identity_not_found",
    "installations": "github_installation_not_found",
}
NEEDS_NONE = {
    "DELETE /api/v0/organizations/{org}/github/installations/{id}",
    "GET /api/v0/organizations/{org}/github/installations/{id}/repos",
}
"""Endpoints for which an unknown number is one of nothing, as for clients of the reference's service."""
NAMED_BY_CALLERS = {"host", "name", "provider"}
ELSEWHERE = {
    "GET /api/v0/internal/builds/{build_id}/source.tar.gz",
    "GET /api/v0/organizations/{org}/pipelines/{pipeline}/builds/{number}/render-log",
    "GET /badges/{org}/{pipeline}.svg",
    "GET /badges/{org}/{pipeline}/coverage.svg",
    "POST /api/v0/integrations/bitbucket/connect",
    "POST /webhooks/{provider}",
}
"""Endpoints that need a build in rendering or a code of Bitbucket, or refuse with an image.

See the rules of "Pipelines, builds, jobs", "Source hosts" and "Beyond the reference".
"""
MALFORMED = (
    *("nothing", "0", "-1", "1.0", "01", "1e3", "9" * 40, "\u0661", "%2e%2e", "%00", "1 ", "a b", "'", "é"),
    *("0b9d6f0e-3f0c-4a53-9d0a", "00000000-0000-0000-0000-000000000000", "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"),
)
"""Values that name nothing, some of them well-formed."""


def each(endpoints: list[Endpoint]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("endpoint", endpoints, ids=lambda endpoint: endpoint.request)


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def bearing(scene: Scene, token: str) -> testing.TestClient:
    return testing.TestClient(scene.world.app, headers={"Authorization": f"Bearer {token}"})


def test_the_table_has_every_endpoint_of_the_service(seen: Scene):
    paths = seen.world.anonymous.simulate_get("/api/v0/openapi.json").json["paths"]
    assert set(ENDPOINTS) | ELSEWHERE == {
        f"{method.upper()} {path}" for path, methods in paths.items() for method in methods
    }


@each(ALL)
def test_it_answers(scene: Scene, endpoint: Endpoint):
    if "cli/claim" in endpoint.path:
        scene.owner.signed_in().simulate_post("/api/v0/auth/cli/transfer", json=scene.body(endpoint))
        assert scene.ask(endpoint).status_code == endpoint.status
    elif "cli/redeem" in endpoint.path:
        made = scene.owner.signed_in().simulate_post("/api/v0/auth/cli/code").json
        assert scene.ask(endpoint, json=made).status_code == endpoint.status
    elif is_ceremony(endpoint):
        answered = scene.ask(endpoint, json=scene.ceremony(endpoint))
        assert answered.status_code == endpoint.status, answered.text
    elif endpoint.path in {"/api/v0/invites/accept", "/api/v0/user"}:
        assert scene.ask(endpoint, scene.guest.client).status_code == endpoint.status
    else:
        answered = scene.ask(endpoint)
        assert answered.status_code == endpoint.status, answered.text


@each(NEED_A_TOKEN)
def test_without_a_token_it_is_refused(seen: Scene, endpoint: Endpoint):
    answered = seen.ask(endpoint, seen.world.anonymous)

    assert code(answered) == (401, "unauthorized")
    assert answered.headers["WWW-Authenticate"] == "Bearer"


@each(NEED_A_TOKEN)
def test_with_a_wrong_token_it_is_refused(seen: Scene, endpoint: Endpoint):
    for token in (WRONG, "ci_" + "A" * 43, "", "a b"):
        assert code(seen.ask(endpoint, bearing(seen, token))) == (401, "unauthorized"), token


@each([endpoint for endpoint in ALL if endpoint.who == "log"])
def test_a_log_needs_a_token_of_its_build(seen: Scene, endpoint: Endpoint):
    bearers = "unauthorized" if "{org}" in endpoint.path else "log_stream_unauthorized"
    assert code(seen.ask(endpoint, seen.world.anonymous)) == (401, bearers)
    assert seen.ask(endpoint, bearing(seen, WRONG)).status_code == 401


@each(IN_AN_ORGANIZATION)
def test_an_outsider_finds_no_such_organization(seen: Scene, endpoint: Endpoint):
    client = seen.outsider.signed_in() if endpoint.who == "session" else seen.outsider.client
    assert code(seen.ask(endpoint, client)) == (404, "organization_not_found")


@each(FOR_ADMINS)
def test_a_member_may_not(seen: Scene, endpoint: Endpoint):
    named = {"user_id": seen.admin.user.uuid}  # not the member itself: members may remove themselves
    assert code(seen.ask(endpoint, seen.member.client, named=named)) == (403, "insufficient_org_role")


@each(FOR_ADMINS)
def test_an_admin_may(scene: Scene, endpoint: Endpoint):
    assert scene.ask(endpoint, scene.admin.client).status_code == endpoint.status


@each([endpoint for endpoint in IN_AN_ORGANIZATION if endpoint.who in {"member", "reader"}])
def test_a_member_may(scene: Scene, endpoint: Endpoint):
    assert scene.ask(endpoint, scene.member.client).status_code == endpoint.status


@each(FOR_SESSIONS)
def test_an_api_key_may_not(seen: Scene, endpoint: Endpoint):
    assert code(seen.ask(endpoint, seen.owner.client)) == (403, "session_required")


@each(WITH_A_BODY)
def test_a_malformed_body_is_refused(seen: Scene, endpoint: Endpoint):
    json = {"Content-Type": "application/json"}
    for body in (b"{", b'{"a": 1}}', b"\xff\xfe", b"{'a': 1}", b'{"a": NaN}', b" "):
        assert code(seen.ask(endpoint, body=body, headers=json)) == (400, "malformed_json"), body
    for body in (b"[]", b"null", b'"text"', b"7"):
        assert code(seen.ask(endpoint, body=body, headers=json)) == (422, "invalid_body"), body
    answered = seen.ask(endpoint, body=b"a=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert code(answered) == (415, "unsupported_media_type")


@each([endpoint for endpoint in WITH_A_BODY if endpoint in NEED_A_TOKEN])
def test_nobody_learns_of_the_body_before_signing_in(seen: Scene, endpoint: Endpoint):
    json = {"Content-Type": "application/json"}
    for body in (b"{", b"[]", b"{}"):
        answered = seen.ask(endpoint, seen.world.anonymous, body=body, headers=json)
        assert code(answered) == (401, "unauthorized"), body


@each([endpoint for endpoint in ALL if "{" in endpoint.path])
def test_a_malformed_id_names_nothing(seen: Scene, endpoint: Endpoint):
    for name in set(re.findall(r"{(\w+)}", endpoint.path)) - NAMED_BY_CALLERS:
        kind = next((kind for kind in IDS if name == "id" and f"/{kind}/" in endpoint.path), None)
        expected = (404, IDS[kind] if kind else NOUNS[name])
        for value in MALFORMED:
            answered = seen.ask(endpoint, named={name: value})
            if name == "id" and value.isascii() and value.isdigit() and endpoint.request in NEEDS_NONE:
                assert answered.status_code == endpoint.status, value
            else:
                assert code(answered) == expected, (name, value)
