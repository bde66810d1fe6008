"""One of everything that paths name, and people in each role."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from falcon import testing

from tests.api.passkeys import LOGIN, RECOVER, SIGN_UP
from tests.api.world import Account, BuildPath, World
from tests.authenticator import Authenticator
from tests.contract.reference import Endpoint
from tests.forges.connected import TOKEN
from tests.identity.issuer import BODY
from tests.payment_provider import signature

WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
COUPON = "FOR-ALL-OF-US"


@dataclass
class Scene:
    """An organization of ``owner`` with an admin, a member and a build that ran; and people outside of it."""

    world: World
    owner: Account
    admin: Account
    member: Account
    outsider: Account
    guest: Account
    build: BuildPath
    named: dict[str, str]
    examples: dict[str, Any]
    forge_url: str
    authenticator: Authenticator
    """The owner's passkey."""

    def ask(self, endpoint: Endpoint, client: testing.TestClient | None = None, **changes: Any) -> testing.Result:
        """Send the endpoint's valid request, with changes; by default from a session of the owner.

        ``named`` replaces values in the path, ``json`` or ``body`` the body, ``headers`` are added.
        """
        client = client or self.owner.signed_in()
        own = {"pipeline": "forked"} if endpoint.path.endswith("/approve") else {}
        if endpoint.path.endswith(("/jobs/{job_id}/approve", "/jobs/{job_id}/reject")):
            own = {"pipeline": "deployed", "number": "1", "job_id": self.named["gated_job"]}
        if "/environments/" in endpoint.path:
            own = {"name": "staging"}
        if "{terminal}" in endpoint.path and client is self.member.client:
            own = {"terminal": self.named["members-terminal"]}
        if "/culprit" in endpoint.path:
            own = {"pipeline": "broken", "number": "2"}
        if endpoint.path.endswith("/start"):
            self._connect_pipeline()
        named = {**self.named, "id": self.id_for(endpoint), **own, **changes.pop("named", {})}
        path = re.sub(r"{(\w+)}", lambda found: named[found[1]], endpoint.path)
        if "body" not in changes and "json" not in changes and (body := self.body(endpoint)) is not None:
            changes["json"] = body
        if path.endswith("/billing/webhook") and "json" in changes:
            changes["body"] = json.dumps(changes.pop("json")).encode()
            changes["headers"] = {"Content-Type": "application/json", "Stripe-Signature": signature(changes["body"])}
        params = (
            {"path": "dist/report.txt"}
            if path.endswith("/latest-artifacts/file")
            else WINDOW
            if "/billing/usage/" in path
            else {"name": "adds"}
            if path.endswith(("/test-history", "/test-proofs"))
            else {}
        )
        return client.simulate_request(endpoint.method, path, params=params, **changes)

    def body(self, endpoint: Endpoint) -> dict[str, Any] | None:
        """Return a valid body; None if the endpoint takes none."""
        example = self.examples.get(endpoint.request)
        if example is None:
            return None
        signing_in = {**BODY, "owner_token": None}
        own: dict[str, dict[str, Any]] = {
            "POST /api/v0/organizations/{org}/pipelines/{pipeline}/quarantine": {"owner": self.member.email},
            "POST /api/v0/organizations/{org}/environments/{name}/rollback": {"job_id": None},
            "POST /api/v0/organizations/{org}/repos/{id}/merge-queue": {"pull_request": None, "target": "main"},
            "POST /api/v0/organizations/{org}/builds": {"repo_name": "Acme/Demo", "source_slug": "ci", "inputs": {}},
            "POST /api/v0/organizations/{org}/pipelines/{pipeline}/builds": {"inputs": {}},
            "POST /api/v0/billing/coupon/redeem/{org}": {"code": COUPON},
            "PATCH /api/v0/organizations/{org}/pipelines/{pipeline}": {"followers": [self.named["org"]]},
            "PATCH /api/v0/organizations/{org}/members/{user_id}": {"role": "admin"},
            "POST /api/v0/organizations/{org}/invites": {"email": "new@example.org"},
            "POST /api/v0/user/api-tokens": {"only": self.named["org"]},
            "POST /api/v0/organizations/{org}/machine-accounts": {"name": "another-bot"},
            "POST /api/v0/organizations/{org}/machine-accounts/{machine}/api-tokens": {"only": self.named["org"]},
            "POST /api/v0/invites/accept": {"token": self.named["invite_token"]},
            "POST /api/v0/organizations/{org}/repos/connect": {"url": f"{self.forge_url}/acme/web", "token": TOKEN},
            "POST /api/v0/auth/google": signing_in,
            "POST /api/v2/auth/google": signing_in,
            "POST /api/v0/auth/github": signing_in,
            "POST /api/v0/auth/oidc/{provider}": signing_in,
        }
        return {**example, **own.get(endpoint.request, {})}

    def ceremony(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the body of a passkey endpoint, with a new link and the answer to a new challenge."""
        body = self.body(endpoint) or {}
        links, path = self.world.storage.sign_in_links, endpoint.path.rpartition("/")[0]
        tokens: dict[str, dict[str, str]] = {
            SIGN_UP: {"verification_token": links.verification("new@example.org", "New")},
            RECOVER: {"magic_link_token": links.magic_link(self.owner.user)},
        }
        body |= tokens.get(path, {})
        if "challenge_id" in body:
            begun = self.owner.signed_in().simulate_post(f"{path}/options", json=body).json
            body["challenge_id"] = begun["challenge_id"]
            if path == LOGIN:
                body["assertion"] = self.authenticator.get(begun["options"])
            else:
                body["attestation"] = Authenticator().create(begun["options"])
        return body

    def id_for(self, endpoint: Endpoint) -> str:
        """Return the value of ``{id}`` in the endpoint's path."""
        kinds = (
            "api-tokens",
            "sessions",
            "invites",
            "artifacts",
            "identities",
            "schedules",
            "notifications",
            "repos",
            "workspaces",
            "installations",
        )
        if "/machine-accounts/" in endpoint.path:
            return self.named["machine-key"]
        if endpoint.path.endswith("/hook"):
            return self.named["plain-repo"]
        kind = next((kind for kind in kinds if f"/{kind}/" in endpoint.path), "none")
        return self.named[kind]

    def _connect_pipeline(self) -> None:
        """Connect the repository of the pipeline, unless it is."""
        storage = self.world.storage
        organization = storage.organizations.by_slug(self.named["org"])
        pipeline = None if organization is None else storage.pipelines.by_slug(organization.id, self.named["pipeline"])
        if pipeline is not None and storage.repositories.of_pipeline(pipeline) is None:
            storage.repositories.connect(pipeline.organization_id, pipeline.repository, "acme/started", 60)

    def in_world(self, world: World) -> Scene:
        """Return the same people and things in a copy of the world."""
        people = ("owner", "admin", "member", "outsider", "guest")
        copies = {name: replace(getattr(self, name), world=world) for name in people}
        return replace(self, world=world, build=BuildPath(copies["owner"], self.build.path), **copies)


def is_ceremony(endpoint: Endpoint) -> bool:
    """Tell whether an endpoint is a step to or from an authenticator: see `Scene.ceremony`."""
    return "/auth/passkey/" in endpoint.path or "/auth/recover/" in endpoint.path
