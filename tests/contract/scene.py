"""One of everything that paths name, people in each role, and a payment provider."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from falcon import testing

from actors.source_hosts import RepositoryConnector
from actors.source_hosts.github import GithubApi, Installations
from api import HttpSettings, IdentitySettings, RateLimitSettings
from storage import BuildState, NewBuild, NewCoupon, NewPipeline, ProvenIdentity, Role, SignUpPolicy, Storage
from tests.api.conformity import conformity
from tests.api.passkeys import LOGIN, RECOVER, SIGN_UP, with_passkey
from tests.api.world import Account, BuildPath, World
from tests.authenticator import Authenticator
from tests.clock import ManualClock
from tests.contract.reference import Endpoint
from tests.forges.bitbucket import BitbucketServer
from tests.forges.connected import TOKEN, connected, forges
from tests.forges.server import LocalHost
from tests.forges.workspaces import opened, workspace
from tests.github_server import GithubServer
from tests.identity.issuer import BODY
from tests.payment_provider import LocalProvider, signature
from tests.records import new_job
from tests.state import new_storage

UNLIMITED = RateLimitSettings(
    address_per_minute=10**6, account_per_minute=10**6, emails_per_minute=10**6, failures_per_minute=10**6
)
WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
BOUND = 7
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
        named = {**self.named, "id": self.id_for(endpoint), **own, **changes.pop("named", {})}
        path = re.sub(r"{(\w+)}", lambda found: named[found[1]], endpoint.path)
        if "body" not in changes and "json" not in changes and (body := self.body(endpoint)) is not None:
            changes["json"] = body
        if path.endswith("/billing/webhook") and "json" in changes:
            changes["body"] = json.dumps(changes.pop("json")).encode()
            changes["headers"] = {"Content-Type": "application/json", "Stripe-Signature": signature(changes["body"])}
        params = WINDOW if "/billing/usage/" in path else {}
        return client.simulate_request(endpoint.method, path, params=params, **changes)

    def body(self, endpoint: Endpoint) -> dict[str, Any] | None:
        """Return a valid body; None if the endpoint takes none."""
        example = self.examples.get(endpoint.request)
        if example is None:
            return None
        signing_in = {**BODY, "owner_token": None}
        own: dict[str, dict[str, Any]] = {
            "POST /api/v0/organizations/{org}/builds": {"repo_name": "Acme/Demo", "source_slug": "ci"},
            "POST /api/v0/billing/coupon/redeem/{org}": {"code": COUPON},
            "PATCH /api/v0/organizations/{org}/members/{user_id}": {"role": "admin"},
            "POST /api/v0/organizations/{org}/invites": {"email": "new@example.org"},
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
        kind = next((kind for kind in kinds if f"/{kind}/" in endpoint.path), "none")
        return self.named[kind]


def installed(storage: Storage, github: GithubServer, clock: ManualClock) -> Installations:
    """Install the app twice at GitHub; return the installations."""
    for number in (BOUND, 4711):
        github.install(number, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
    api = GithubApi(github.settings(storage.directory / "app.pem"), clock)
    return Installations(storage, api, sign_in_proves=True)


def is_ceremony(endpoint: Endpoint) -> bool:
    """Tell whether an endpoint is a step to or from an authenticator: see `Scene.ceremony`."""
    return "/auth/passkey/" in endpoint.path or "/auth/recover/" in endpoint.path


def make_scene(
    directory: Path, provider: LocalProvider, identity: IdentitySettings, forge: LocalHost, github: GithubServer
) -> tuple[Storage, Scene]:
    """Make a scene in a new storage, which the caller closes."""
    clock = ManualClock()
    storage = new_storage(directory, clock)
    settings = HttpSettings(base_url="https://ci.example.org")
    at_hosts: dict[str, Any] = {
        "connector": RepositoryConnector(storage, forges(storage, forge), "https://ci.example.org"),
        "workspaces": opened(storage, clock, forge, BitbucketServer()).workspaces,
        "installations": installed(storage, github, clock),
    }
    world = World.create(storage, clock, settings, UNLIMITED, provider.settings(), identity, **at_hosts)
    owner, admin, member, outsider, guest = (
        world.sign_up(f"{name}@example.org", name.title()) for name in ("owner", "admin", "member", "outsider", "guest")
    )
    admin.join(owner, Role.ADMIN)
    member.join(owner, Role.MEMBER)
    pipeline = owner.pipeline()
    owner.client.simulate_patch(pipeline.path, json={"source_slug": "ci"})
    build = pipeline.build()
    job = build.job()
    job.write(b"hello\n")
    job.run_for(60)
    storage.builds.move(build.stored.id, build.stored.state, BuildState.PASSED)
    files = [storage.artifacts.files.write(build.stored.uuid, "dist/report.txt", [b"text"])]
    storage.artifacts.store(build.stored, job.stored, files)
    of_fork = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    forked = storage.pipelines.create(owner.org_id, NewPipeline("forked", "Forked", "https://x.org/a/b", "main"))
    storage.builds.create(forked, of_fork, [new_job()])
    storage.coupons.create(NewCoupon(COUPON, 500))
    for scope in (owner.path, pipeline.path):
        owner.client.simulate_put(f"{scope}/secrets/TOKEN", json={"value": "nobody-reads"})
    key, _ = storage.tokens.create_api_key(owner.user.id, "to be revoked")
    session, _ = storage.tokens.create_session(owner.user.id, "to be ended")
    for person in (owner, admin):
        proven = ProvenIdentity("github", str(person.user.id), person.email, verified=True, name="")
        storage.identities.sign_in(proven, SignUpPolicy())
    github.users = {person.user.id: person.email for person in (owner, admin)}
    github.roles = {("acme", person.email): "admin" for person in (owner, admin)}
    owner.signed_in().simulate_post(f"{owner.path}/github/installations", json={"installation_id": BOUND})
    for subject in ("1", "2"):
        proven = ProvenIdentity("google", subject, owner.email, verified=True, name="")
        storage.identities.sign_in(proven, SignUpPolicy())
    invite = owner.client.simulate_post(f"{owner.path}/invites", json={"email": guest.email, "role": "member"}).json
    repository = connected(storage, owner.org_id, forge)
    schedule = owner.client.simulate_post(f"{pipeline.path}/schedules", json={"cron": "30 4 * * *"}).json
    hook = {"kind": "webhook", "url": "https://hooks.example.org/builds"}
    notification = owner.client.simulate_post(f"{pipeline.path}/notifications", json=hook).json
    tested = owner.client.simulate_post(f"{pipeline.path}/notifications/{notification['id']}/test").json
    authenticator = with_passkey(owner)
    named = {
        "uuid": storage.passkeys.of_user(owner.user.id)[0].uuid,
        "org": owner.org,
        "pipeline": pipeline.path.rpartition("/")[2],
        "number": "1",
        "job_id": job.uuid,
        "user_id": member.user.uuid,
        "name": "TOKEN",
        "code": "build_not_found",
        "none": "",
        "provider": "corp",
        "identities": storage.identities.of_user(owner.user.id)[0].uuid,
        "api-tokens": key.uuid,
        "sessions": session.uuid,
        "invites": invite["id"],
        "schedules": schedule["id"],
        "installations": str(BOUND),
        "notifications": notification["id"],
        "delivery": tested["id"],
        "repos": repository.uuid,
        "workspaces": workspace(storage, owner.org_id).account,
        "invite_token": invite["token"],
        "artifacts": build.get("/artifacts").json["data"][0]["id"],
    }
    examples = {
        f"{method.upper()} {path}": operation["requestBody"]["content"]["application/json"]["example"]
        for path, methods in conformity().document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    }
    return storage, Scene(
        world, owner, admin, member, outsider, guest, build, named, examples, forge.url, authenticator
    )
