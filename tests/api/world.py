"""Worlds of the tests: the app on real storage, and users, pipelines, builds and jobs to ask about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import falcon
from falcon import testing

from actors.source_hosts import Installations, RepositoryConnector, SourceHost, Workspaces
from api import HttpSettings, IdentitySettings, Parts, PaymentSettings, RateLimitSettings, create_app
from api.operations import Box
from storage import Build, Job, JobState, LedgerSource, Role, Storage, User
from tests import records
from tests.api.conformity import conformity
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine

HELLO = json.dumps({"version": "0", "steps": [{"type": "command", "key": "only", "cmd": "true"}]})


def steps(*keys: str) -> str:
    """Return a pipeline whose steps run one after the other."""
    nodes = [{"step": {"key": key, "cmd": f"make {key}"}, "env": {}} for key in keys]
    edges = [[position, position + 1, "depends_on"] for position in range(len(keys) - 1)]
    return json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}})


@dataclass
class World:
    """A service without users, and helpers to fill it."""

    storage: Storage
    engine: FakeEngine
    clock: ManualClock
    app: falcon.App[Any, Any]
    anonymous: testing.TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.anonymous = testing.TestClient(self.app)

    @classmethod
    def create(
        cls,
        storage: Storage,
        clock: ManualClock,
        settings: HttpSettings,
        rate_limits: RateLimitSettings | None = None,
        payments: PaymentSettings | None = None,
        identity: IdentitySettings | None = None,
        *,
        hosts: Mapping[str, SourceHost] | None = None,
        connector: RepositoryConnector | None = None,
        workspaces: Workspaces | None = None,
        installations: Installations | None = None,
        box: Box | None = None,
    ) -> World:
        """Return a world on a storage, whose responses must conform to the OpenAPI document."""
        engine = FakeEngine(storage, clock)
        app = create_app(
            storage,
            engine,
            settings,
            Parts(
                identity=identity,
                rate_limits=rate_limits,
                payments=payments,
                clock=clock,
                hosts=hosts,
                connector=None if connector is None else lambda: connector,
                workspaces=None if workspaces is None else lambda: workspaces,
                installations=None if installations is None else lambda: installations,
                box=None if box is None else lambda: box,
            ),
        )
        app.add_middleware(conformity())
        return cls(storage, engine, clock, app)

    def sign_up(self, email: str, name: str = "A Name", cents: int = 1000) -> Account:
        """Add a user with an API key, and money in the personal organization."""
        owner = records.new_owner(self.storage, email, name, cents)
        return Account(self, email, owner.organization.slug, owner.organization.id, owner.token)


@dataclass
class Account:
    """A user with an API key and an organization."""

    world: World
    email: str
    org: str
    org_id: int
    token: str
    client: testing.TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = testing.TestClient(self.world.app, headers={"Authorization": f"Bearer {self.token}"})

    @property
    def path(self) -> str:
        return f"/api/v0/organizations/{self.org}"

    def pipeline(self, name: str = "demo", **fields: Any) -> PipelinePath:
        """Create a pipeline through the API."""
        body = {"name": name, "repository": "https://example.org/acme/demo.git", "default_branch": "main", **fields}
        answered = self.client.simulate_post(f"{self.path}/pipelines", json=body)
        assert answered.status_code == 201, answered.text
        return PipelinePath(self, f"{self.path}/pipelines/{answered.json['slug']}")

    def signed_in(self) -> testing.TestClient:
        """Begin a session; return a client with its token."""
        _, token = self.world.storage.tokens.create_session(self.user.id, "tests")
        return testing.TestClient(self.world.app, headers={"Authorization": f"Bearer {token}"})

    @property
    def user(self) -> User:
        """The user's row."""
        user = self.world.storage.users.by_email(self.email)
        assert user is not None
        return user

    def join(self, other: Account, role: Role) -> None:
        """Become a member of another account's organization."""
        self.world.storage.organizations.add_member(other.org_id, self.user.id, role)

    def grant(self, cents: int) -> None:
        self.world.storage.ledger.append(self.org_id, cents, LedgerSource.ADMIN_GRANT, None)


@dataclass
class PipelinePath:
    """A pipeline by its path."""

    account: Account
    path: str

    def post(self, **fields: Any) -> testing.Result:
        """Post a build; return the answer."""
        body = {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO, **fields}
        return self.account.client.simulate_post(f"{self.path}/builds", json=body)

    def build(self, **fields: Any) -> BuildPath:
        """Create a build, which must succeed."""
        answered = self.post(**fields)
        assert answered.status_code == 201, answered.text
        return BuildPath(self.account, f"{self.path}/builds/{answered.json['number']}")


@dataclass
class BuildPath:
    """A build by its path."""

    account: Account
    path: str

    def get(self, below: str = "", **options: Any) -> testing.Result:
        return self.account.client.simulate_get(self.path + below, **options)

    @property
    def stored(self) -> Build:
        """The build's row."""
        *_, org, _, pipeline, _, number = self.path.split("/")
        build = self.account.world.storage.builds.find(org, pipeline, int(number))
        assert build is not None
        return build

    def job(self, position: int = 0) -> JobPath:
        """Return the job at a position."""
        job = self.account.world.storage.jobs.of_build(self.stored.id)[position]
        return JobPath(self, job.uuid, f"{self.path}/jobs/{job.uuid}")

    def token(self) -> str:
        """Return a log token for the build."""
        answered = self.get("/log-token")
        assert answered.status_code == 200, answered.text
        token: str = answered.json["token"]
        return token


@dataclass
class JobPath:
    """A job by its path."""

    build: BuildPath
    uuid: str
    path: str

    @property
    def stored(self) -> Job:
        """The job's row."""
        job = self.build.account.world.storage.jobs.by_uuid(self.uuid)
        assert job is not None
        return job

    def write(self, *outputs: bytes, notice: str | None = None, attempt: int = 1) -> None:
        """Append to the job's log, each output as a chunk of its own."""
        world = self.build.account.world
        writer = world.storage.logs.writer(self.build.stored.uuid, self.uuid, attempt)
        for output in outputs:
            writer.output(output)
        if notice is not None:
            writer.notice(notice)
        writer.end()
        world.engine.log_changed(self.uuid)

    def assign(self, lease_uuid: str) -> int:
        """Assign a lease, as the pool does; return the lease's id."""
        storage = self.build.account.world.storage
        lease = records.assigned(storage, self.stored, lease_uuid=lease_uuid)
        storage.leases.active(lease.id)
        return lease.id

    def run_for(self, seconds: float) -> None:
        """Run the job's command for some seconds, then pass the job."""
        world = self.build.account.world
        lease = records.started(world.storage, self.stored)
        world.clock.advance(seconds)
        records.finish(world.storage, self.stored, lease)

    def end(self, state: JobState = JobState.PASSED) -> None:
        """Move the job to a terminal state."""
        world = self.build.account.world
        assert world.storage.jobs.move(self.stored.id, self.stored.state, state)
        world.engine.log_changed(self.uuid)
