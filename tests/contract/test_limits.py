"""Rules that hold for many endpoints at once."""

from __future__ import annotations

import pytest

from tests.contract.reference import ENDPOINTS, REQUESTS, Field
from tests.contract.scene import Scene

TABLE = "Rules of many endpoints"

LONG = {
    "message": 10_000,
    "description": 10_000,
    "nonce": 256,
    "redirect_uri": 2048,
    "command": 2**16,
    "patch": 2**20,
    "data": 21_848,
    "path": 4096,
}
LONG_CODES = 4096
"""The limit of codes of identity providers."""

LONG_URLS = 2000
"""The limit of endpoints of notifications."""

UNBOUNDED = {"pipeline_ir", "source_b64", "token", "value", "password"}
LISTED = {"visibility", "source", "role", "kind", "nonce_hash", "source_sha256", "code_verifier"}
STRINGS = [field for field in REQUESTS if field.type == "string" and field.name not in UNBOUNDED | LISTED]
TOKENS = [
    "POST /api/v0/user/api-tokens",
    "POST /api/v0/organizations/{org}/invites",
    "GET /api/v0/organizations/{org}/pipelines/{pipeline}/builds/{number}/log-token",
    "POST /api/v0/auth/cli/code",
    "POST /api/v2/auth/cli/code",
]
CREATE = ENDPOINTS["POST /api/v0/organizations/{org}/pipelines/{pipeline}/builds"]
SET = ENDPOINTS["PUT /api/v0/organizations/{org}/pipelines/{pipeline}/secrets/{name}"]


@pytest.mark.parametrize("field", STRINGS, ids=lambda field: f"{field.of} {field.name}")
def test_a_string_has_a_limit(seen: Scene, field: Field):
    limit = LONG.get(field.name, 255)
    if field.name == "code" and {"redirect_uri"} <= (seen.body(field.endpoint) or {}).keys():
        limit = LONG_CODES
    if field.name == "url" and "notifications" in field.of:
        limit = LONG_URLS
    body = seen.body(field.endpoint) or {}
    answered = seen.ask(field.endpoint, json={**body, field.name: "x" * (limit + 1)})

    assert answered.status_code == 422
    assert answered.json["error"]["message"] == f"{field.name}: expected at most {limit} characters"


@pytest.mark.parametrize("request_", TOKENS)
def test_what_holds_a_token_is_not_stored(scene: Scene, request_: str):
    assert scene.ask(ENDPOINTS[request_]).headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("version", ["v0", "v2"])
def test_a_session_that_is_handed_over_is_not_stored(scene: Scene, version: str):
    code = scene.ask(ENDPOINTS[f"POST /api/{version}/auth/cli/code"]).json
    answered = scene.ask(ENDPOINTS[f"POST /api/{version}/auth/cli/redeem"], json=code)
    assert (answered.status_code, answered.headers["Cache-Control"]) == (200, "no-store")


def test_checks_come_in_order(seen: Scene):
    """A request that is wrong in every way is corrected one fault at a time, in the order of the checks."""
    wrong = {"org": "nothing", "pipeline": "nothing", "name": "TO-KEN"}
    answers = [
        seen.ask(SET, seen.world.anonymous, named=wrong, json={}),
        seen.ask(SET, seen.member.client, named=wrong, json={}),
        seen.ask(SET, seen.member.client, named={"pipeline": "nothing", "name": "TO-KEN"}, json={}),
        seen.ask(SET, seen.member.client, named={"name": "TO-KEN"}, json={}),
        seen.ask(SET, seen.admin.client, named={"name": "TO-KEN"}, json={}),
    ]
    assert [answered.json["error"]["code"] for answered in answers] == [
        "unauthorized",
        "organization_not_found",
        "pipeline_not_found",
        "insufficient_org_role",
        "invalid_body",
    ]


def test_amounts_have_their_sign(seen: Scene):
    usage = seen.ask(ENDPOINTS["GET /api/v0/billing/usage/{org}"]).json
    days = seen.ask(ENDPOINTS["GET /api/v0/billing/usage/{org}/series"]).json["data"]
    (build,) = seen.ask(ENDPOINTS["GET /api/v0/billing/usage/{org}/breakdown"]).json["data"]

    assert usage["total_cents"] == sum(day["total_cents"] for day in days) > 0
    assert build["total_cents"] == sum(job["amount_cents"] for job in build["jobs"]) == -usage["total_cents"]
