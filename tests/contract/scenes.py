"""Scenes as tests begin with them: one is made by requests, and each test gets a copy of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from actors.source_hosts import GithubApi, Installations, RepositoryConnector
from api import HttpSettings, IdentitySettings, RateLimitSettings
from storage import (
    Build,
    BuildState,
    Job,
    JobState,
    NewBuild,
    NewCoupon,
    NewEnvironment,
    NewMerge,
    NewPipeline,
    NewPipelineTrigger,
    NewProof,
    NewQuarantine,
    PreviewSpec,
    ProvenIdentity,
    Role,
    SignUpPolicy,
    Storage,
    TestName,
    TriggerState,
)
from tests.api.conformity import conformity
from tests.api.passkeys import with_passkey
from tests.api.world import HELLO, Account, World
from tests.clock import ManualClock
from tests.contract.scene import COUPON, Scene
from tests.culprits import broken
from tests.forges.bitbucket import BitbucketServer
from tests.forges.connected import connected, forges
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, serving
from tests.forges.workspaces import opened, workspace
from tests.github_server import GithubServer
from tests.identity.everyone import providers_of
from tests.payment_provider import LocalProvider
from tests.records import new_job
from tests.state import new_storage, storage_in

UNLIMITED = RateLimitSettings(
    address_per_minute=10**6, account_per_minute=10**6, emails_per_minute=10**6, failures_per_minute=10**6
)
BOUND = 7


@dataclass(frozen=True)
class Outside:
    """The companies that a service asks: for payments, for identities, and source hosts."""

    payments: LocalProvider
    identity: IdentitySettings
    forge: LocalHost
    github: GithubServer

    @classmethod
    @contextmanager
    def serving(cls, folder: Path) -> Iterator[Outside]:
        """Serve all of them, at ports of their own."""
        with (
            LocalProvider.serving() as payments,
            providers_of("owner@example.org") as identity,
            serving(ForgejoServer(), folder) as forge,
            GithubServer.serving() as github,
        ):
            yield cls(payments, identity, forge, github)

    def world(self, storage: Storage, clock: ManualClock) -> World:
        """Return a service on a storage that asks them."""
        return World.create(
            storage,
            clock,
            HttpSettings(base_url="https://ci.example.org"),
            UNLIMITED,
            self.payments.settings(),
            self.identity,
            connector=RepositoryConnector(storage, forges(storage, self.forge), "https://ci.example.org"),
            workspaces=opened(storage, clock, self.forge, BitbucketServer()).workspaces,
            installations=self._installed(storage, clock),
        )

    def _installed(self, storage: Storage, clock: ManualClock) -> Installations:
        """Install the app twice at GitHub; return the installations."""
        for number in (BOUND, 4711):
            self.github.install(number, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
        api = GithubApi(self.github.settings(storage.directory / "app.pem"), clock)
        return Installations(storage, api, sign_in_proves=True)


class Scenes:
    """Copies of one scene, which is made in a folder: its requests take long."""

    def __init__(self, folder: Path, outside: Outside) -> None:
        self._state = folder / "state"
        self._outside = outside
        with closing(new_storage(self._state, clock := ManualClock())) as storage:
            self._made = _filled(outside.world(storage, clock), outside)

    @contextmanager
    def copy(self, directory: Path) -> Iterator[Scene]:
        """Yield a copy, whose state is in a new directory."""
        shutil.copytree(self._state, directory)
        clock = ManualClock(self._made.world.clock.now())
        with closing(storage_in(directory, clock)) as storage:
            yield self._made.in_world(self._outside.world(storage, clock))


def _at_gate(storage: Storage, organization_id: int) -> str:
    """Make a job that waits at the gate of the environment "staging", and two that have passed it.

    Return its id.
    """
    storage.environments.create(organization_id, NewEnvironment("staging", approvers=("member",)))
    new = NewPipeline("deployed", "Deployed", "https://x.org/a/b", "main")
    deployed = storage.pipelines.create(organization_id, new)
    uuids = []
    for ends in (False, True, True):
        build = storage.builds.create(
            deployed, NewBuild("main", "c0ffee", pipeline_ir=HELLO), [new_job(environment="staging")]
        )
        (job,) = storage.jobs.of_build(build.id)
        storage.gates.ask(job.id, 600)
        uuids.append(job.uuid)
        if ends:
            assert storage.jobs.move(job.id, JobState.PENDING, JobState.SCHEDULED)
            assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.PASSED)
    return uuids[0]


def _proof(storage: Storage, build: Build, job: Job) -> str:
    """Keep the disk of a job, and begin a proof of its test; return the id of the proof."""
    storage.snapshots.add("the disk", job.id, "sandbox")
    storage.kept_disks.keep("the disk", build)
    return storage.proofs.add(build, job, NewProof(20, 60, 3600, (TestName("math", "adds"),), "ann")).uuid


def _filled(world: World, outside: Outside) -> Scene:
    """Make one of everything in an empty service."""
    storage = world.storage
    owner, admin, member, outsider, guest = (
        world.sign_up(f"{name}@example.org", name.title()) for name in ("owner", "admin", "member", "outsider", "guest")
    )
    admin.join(owner, Role.ADMIN)
    member.join(owner, Role.MEMBER)
    pipeline = owner.pipeline()
    owner.client.simulate_patch(pipeline.path, json={"source_slug": "ci"})
    for follower in ("Acme", "Globex"):
        storage.organizations.create(follower, "", world.sign_up(f"{follower.lower()}@example.org").user.id)
    with_service = {"run": "true", "services": {"db": {"image": "postgres:16"}}}
    build = pipeline.build(pipeline_ir=json.dumps({"version": "1", "jobs": {"only": with_service}}))
    job = build.job()
    job.write(b"hello\n")
    job.run_for(60)
    storage.builds.move(build.stored.id, build.stored.state, BuildState.PASSED)
    report = b'<testsuite name="math"><testcase name="adds" time="1.5"/></testsuite>'
    kept = {"dist/report.txt": b"text", "junit.xml": report, "lcov.info": b"SF:a.c\nDA:1,1\n"}
    files = [storage.artifacts.files.write(build.stored.uuid, path, [content]) for path, content in kept.items()]
    storage.artifacts.store(build.stored, job.stored, files)
    of_fork = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    forked = storage.pipelines.create(owner.org_id, NewPipeline("forked", "Forked", "https://x.org/a/b", "main"))
    storage.builds.create(forked, of_fork, [new_job()])
    _searched(storage, owner.org_id)
    storage.coupons.create(NewCoupon(COUPON, 500))
    for scope in (owner.path, pipeline.path):
        owner.client.simulate_put(f"{scope}/secrets/TOKEN", json={"value": "nobody-reads"})
    key, _ = storage.tokens.create_api_key(owner.user.id, "to be revoked")
    session, _ = storage.tokens.create_session(owner.user.id, "to be ended")
    for person in (owner, admin):
        proven = ProvenIdentity("github", str(person.user.id), person.email, verified=True, name="")
        storage.identities.sign_in(proven, SignUpPolicy())
    outside.github.users = {person.user.id: person.email for person in (owner, admin)}
    outside.github.roles = {("acme", person.email): "admin" for person in (owner, admin)}
    owner.signed_in().simulate_post(f"{owner.path}/github/installations", json={"installation_id": BOUND})
    for subject in ("1", "2"):
        proven = ProvenIdentity("google", subject, owner.email, verified=True, name="")
        storage.identities.sign_in(proven, SignUpPolicy())
    invite = owner.client.simulate_post(f"{owner.path}/invites", json={"email": guest.email, "role": "member"}).json
    repository = connected(storage, owner.org_id, outside.forge)
    storage.deliveries.receive("forgejo", "push", "delivery-1", repository, b"{}")
    plain = storage.repositories.connect(owner.org_id, "https://git.example.org/acme/web.git", "acme/web", 60)
    schedule = owner.client.simulate_post(f"{pipeline.path}/schedules", json={"cron": "30 4 * * *"}).json
    own = storage.pipelines.by_slug(owner.org_id, pipeline.path.rpartition("/")[2])
    assert own is not None
    after = NewPipelineTrigger("base-image", TriggerState.PASSED, "main", ".hm/ci.yml")
    storage.pipeline_triggers.declare(own.id, [after])
    hook = {"kind": "webhook", "url": "https://hooks.example.org/builds"}
    for each in (owner, admin, member):
        each.client.simulate_put(f"{pipeline.path}/favourite")
    notification = owner.client.simulate_post(f"{pipeline.path}/notifications", json=hook).json
    tested = owner.client.simulate_post(f"{pipeline.path}/notifications/{notification['id']}/test").json
    _logins(owner)
    authenticator = with_passkey(owner)
    named = {
        "uuid": storage.passkeys.of_user(owner.user.id)[0].uuid,
        "org": owner.org,
        "pipeline": pipeline.path.rpartition("/")[2],
        "number": "1",
        "job_id": job.uuid,
        "service": "db",
        "user_id": member.user.uuid,
        **_machine_account(owner),
        "terminal": _terminal(owner, f"{build.path}/jobs/{job.uuid}"),
        "preview": _preview(storage, build.stored, job.stored),
        "members-terminal": _terminal(member, f"{build.path}/jobs/{job.uuid}"),
        "name": "TOKEN",
        "host": "registry.example.com",
        "gated_job": _at_gate(storage, owner.org_id),
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
        "plain-repo": plain.uuid,
        "entry": storage.merge_queues.add(repository, NewMerge(branch="queued"), "ann").uuid,
        "quarantined": storage.quarantine.add(
            build.stored.pipeline_id, NewQuarantine(TestName("math", "adds"), "", "ann", "", 7), "ann"
        ).uuid,
        "proof": _proof(storage, build.stored, job.stored),
        "delivery_id": storage.deliveries.latest(1)[0].uuid,
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
    return Scene(world, owner, admin, member, outsider, guest, build, named, examples, outside.forge.url, authenticator)


def _terminal(account: Account, job: str) -> str:
    """Open a terminal; return its id."""
    opened = account.client.simulate_post(f"{job}/terminals", json={})
    return str(opened.json["id"])


def _preview(storage: Storage, build: Build, job: Job) -> str:
    """Add a preview of a job; return its id."""
    storage.previews.add(build, replace(job, preview=PreviewSpec(8000, "serve").document), "a-disk")
    return job.preview_uuid


def _logins(owner: Account) -> None:
    """Make a deploy key, and a login at a registry."""
    owner.client.simulate_post(f"{owner.path}/deploy-key")
    login = {"username": "ci", "password": "nobody-reads"}
    owner.client.simulate_put(f"{owner.path}/registry-logins/registry.example.com", json=login)


def _searched(storage: Storage, organization_id: int) -> None:
    """Make a pipeline whose second build broke, and the search for why."""
    new = NewPipeline("broken", "Broken", "https://x.org/a/b", "main")
    broken(storage, storage.pipelines.create(organization_id, new))


def _machine_account(owner: Account) -> dict[str, str]:
    """Make a machine account with a key; return what they are named by."""
    path = f"{owner.path}/machine-accounts"
    name = owner.client.simulate_post(path, json={"name": "deploy-bot", "role": "member"}).json["name"]
    key = owner.signed_in().simulate_post(f"{path}/{name}/api-tokens", json={"description": "deploys"})
    return {"machine": name, "machine-key": key.json["api_token"]["id"]}
