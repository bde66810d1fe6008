"""Every change through the API leaves an audit entry: actor, action, origin and subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from falcon import testing

from storage import AuditEntry
from tests.api.conformity import conformity
from tests.contract.reference import ENDPOINTS, Endpoint
from tests.contract.scene import Scene, is_ceremony
from tests.contract.scenes import Outside, Scenes

_ASKED = re.compile(r"/auth/.*/(begin|options)$|/previews/[^/]+/entries$")
ASKS = [endpoint for endpoint in ENDPOINTS.values() if _ASKED.search(endpoint.path)]
"""Endpoints that are asked for a mail, a challenge or a link: nothing that a person would look for."""

TYPED = [endpoint for endpoint in ENDPOINTS.values() if re.search(r"/terminals/.*/(input|size)$", endpoint.path)]
"""Requests for each key that somebody types; the audit has the terminal."""

CHANGES = [endpoint for endpoint in ENDPOINTS.values() if endpoint.method != "GET" and endpoint not in ASKS + TYPED]
"""Endpoints that change something.

Not in the table are reports of source hosts, which are rows that `ci-daemon webhook list` shows, and one that needs an
answer of Bitbucket, which its own tests have.
"""

READS = [endpoint for endpoint in ENDPOINTS.values() if endpoint.method == "GET"]
FOR_THE_GUEST = {"/api/v0/invites/accept", "/api/v0/user"}
BY_A_NEW_USER = {"/api/v0/auth/passkey/signup/finalize"}
BY_THE_PROVIDER = {"/api/v0/billing/webhook"}


def succeed(scene: Scene, endpoint: Endpoint) -> testing.Result:
    """Send the endpoint's request so that it changes something."""
    if "cli/claim" in endpoint.path:
        scene.owner.signed_in().simulate_post("/api/v0/auth/cli/transfer", json=scene.body(endpoint))
        return scene.ask(endpoint, scene.world.anonymous)
    if "cli/redeem" in endpoint.path:
        made = scene.owner.signed_in().simulate_post("/api/v0/auth/cli/code").json
        return scene.ask(endpoint, scene.world.anonymous, json=made)
    if is_ceremony(endpoint):
        return scene.ask(endpoint, json=scene.ceremony(endpoint))
    return scene.ask(endpoint, scene.guest.client if endpoint.path in FOR_THE_GUEST else None)


def newest(scene: Scene) -> AuditEntry:
    return scene.world.storage.audit.page(1, None).rows[0]


def secrets_in(sent: object) -> list[str]:
    """Return the texts of a body that are long enough to be recognized."""
    if isinstance(sent, dict):
        return [text for value in sent.values() for text in secrets_in(value)]
    return [sent] if isinstance(sent, str) and len(sent) > 12 else []


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    with Outside.serving(tmp_path_factory.mktemp("outside")) as outside:
        yield Scenes(tmp_path_factory.mktemp("scene"), outside)


@pytest.fixture
def scene(scenes: Scenes, tmp_path: Path) -> Iterator[Scene]:
    with scenes.copy(tmp_path / "state") as scene:
        yield scene


@pytest.fixture(scope="module")
def seen(scenes: Scenes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene for tests that only read."""
    with scenes.copy(tmp_path_factory.mktemp("seen") / "state") as scene:
        yield scene


@pytest.mark.parametrize("endpoint", CHANGES, ids=lambda endpoint: endpoint.request)
def test_it_leaves_an_entry(scene: Scene, endpoint: Endpoint):
    before = scene.world.storage.audit.last_id()
    answered = succeed(scene, endpoint)
    assert answered.status_code == endpoint.status, answered.text
    entry = newest(scene)
    assert entry.id > before
    who = scene.guest.email if endpoint.path in FOR_THE_GUEST else scene.owner.email
    if endpoint.path in BY_A_NEW_USER:
        who = "new@example.org"
    effect = ""
    if endpoint.path in BY_THE_PROVIDER:
        who, effect = "payment provider", f"{answered.json['effect']}, "
    if endpoint.path.endswith("/secrets/{name}") and endpoint.method != "DELETE":
        both = "main release-*"
        effect = f"branches {both}; tags {both}; events push; environments {both}; pipelines {both}, "
    operation = conformity().document["paths"][endpoint.path][endpoint.method.lower()]
    assert (entry.actor, entry.action, entry.origin) == (who, operation["operationId"], "127.0.0.1")
    assert entry.note == f"{effect}api, request {answered.headers['x-request-id']}"
    if "{org}" in endpoint.path:
        assert entry.organization == scene.owner.org
        assert entry.subject.startswith(scene.owner.org)
    is_json = answered.headers.get("content-type", "").startswith("application/json")
    secrets = secrets_in(answered.json if is_json else {}) + secrets_in(scene.body(endpoint))
    tokens = [secret for secret in secrets if secret.startswith("ci_") or secret == "nobody-reads"]
    assert [token for token in tokens if token in str(entry)] == []


@pytest.mark.parametrize("endpoint", READS, ids=lambda endpoint: endpoint.request)
def test_reading_leaves_none(seen: Scene, endpoint: Endpoint):
    before = seen.world.storage.audit.last_id()
    assert seen.ask(endpoint).status_code == endpoint.status
    assert seen.world.storage.audit.last_id() == before


@pytest.mark.parametrize("endpoint", ASKS, ids=lambda endpoint: endpoint.request)
def test_asking_leaves_an_entry_only_if_it_is_refused(scene: Scene, endpoint: Endpoint):
    body = scene.ceremony(endpoint)
    before = scene.world.storage.audit.last_id()
    assert scene.ask(endpoint, json=body).status_code == endpoint.status
    assert scene.world.storage.audit.last_id() == before
    tokens = {name: "x" * 43 for name in body if name.endswith("token")}
    if tokens and endpoint.path.endswith("/options"):
        assert scene.ask(endpoint, json={**body, **tokens}).status_code == 400
        assert newest(scene).note.startswith("refused, ")


def test_it_names_the_row_that_was_made(scene: Scene):
    at = f"{scene.owner.path}/pipelines"
    made = scene.owner.client.simulate_post(at, json={"name": "new", "repository": "r", "default_branch": "main"})
    assert newest(scene).subject == f"{scene.owner.org}/{made.json['slug']}"
    scene.build.account.client.simulate_post(
        f"{at}/{made.json['slug']}/builds", json={"branch": "main", "commit": "c0", "pipeline_ir": "{}"}
    )
    entry = newest(scene)
    assert (entry.action, entry.subject) == ("createBuild", f"{scene.owner.org}/{made.json['slug']}/1")
    assert entry.note.startswith("rejected, api, request ")


def test_a_refused_change_leaves_none_but_a_refused_sign_in_does(scene: Scene):
    before = scene.world.storage.audit.last_id()
    assert scene.outsider.client.simulate_delete(scene.owner.path + "/secrets/TOKEN").status_code == 404
    assert scene.member.client.simulate_delete(scene.owner.path + "/secrets/TOKEN").status_code == 403
    assert scene.world.storage.audit.last_id() == before
    refused = scene.world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json={"code": "WRONG-CODE"})
    assert refused.status_code >= 400
    entry = newest(scene)
    assert (entry.actor, entry.action, entry.subject) == ("nobody", "cliRedeem", "")
    assert entry.note.startswith("refused, api, request ")


def test_a_poll_for_a_session_leaves_no_entry(scene: Scene):
    before = scene.world.storage.audit.last_id()
    for version in ("v0", "v2"):
        path = f"/api/{version}/auth/cli/claim"
        assert scene.world.anonymous.simulate_post(path, json={"nonce": "n" * 43}).status_code == 400
    assert scene.world.storage.audit.last_id() == before
