"""A world for the API's tests: real storage, a minimal engine, and a clock that tests advance."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import falcon
from falcon import testing

from actors.render import Envelope
from storage import Build, BuildState, Job, JobState, LedgerSource, Outcome, Role, Shape, Storage, User

HELLO = json.dumps({"version": "0", "steps": [{"type": "command", "key": "only", "cmd": "true"}]})


def steps(*keys: str) -> str:
    """Return a pipeline whose steps run one after the other."""
    nodes = [{"step": {"key": key, "cmd": f"make {key}"}, "env": {}} for key in keys]
    edges = [[position, position + 1, "depends_on"] for position in range(len(keys) - 1)]
    return json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}})


class TurnableClock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self._monotonic = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def turn(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class DummyEngine:
    """A minimal engine: it records calls, and wakes readers when a test says so.

    A wait without a change advances the clock instead of blocking, so that tests of waiting take no time.
    """

    def __init__(self, storage: Storage, clock: TurnableClock | None) -> None:
        self._storage = storage
        self.clock = clock
        self._changed: dict[str, threading.Event] = {}
        self.draining = False
        self.refusal: Exception | None = None
        self.added = 0
        self.canceled: list[int] = []
        self.rendering: list[int] = []
        self.obstacle: str | None = None
        self.envelope: Envelope | None = None
        self.rendered: Callable[[int], object] | None = None
        """Called with the id of each build to render; stores the result."""
        self.reading: list[DummyWatch] = []
        self.meanwhile: list[Callable[[], None]] = []
        """Callbacks for waits for a log: each wait takes the next one and runs it."""

    def collectors(self) -> tuple[()]:
        return ()

    def jobs_added(self, build_id: int) -> None:
        self.added += 1

    def render(self, build_id: int) -> None:
        self.rendering.append(build_id)
        if self.rendered is not None:
            self.rendered(build_id)

    def renders_wait(self) -> str | None:
        return self.obstacle

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        return self.envelope

    def cancel(self, build_id: int) -> None:
        self.canceled.append(build_id)
        self._storage.builds.request_cancel(build_id)
        if self.refusal is not None:
            raise self.refusal
        for job in self._storage.jobs.of_build(build_id):
            self._storage.jobs.move(job.id, job.state, JobState.CANCELED)
        self._storage.builds.move(build_id, BuildState.SCHEDULED, BuildState.CANCELED)

    @contextmanager
    def watch(self, job_uuid: str) -> Iterator[DummyWatch]:
        changed = self._changed.setdefault(job_uuid, threading.Event())
        watch = DummyWatch(changed, self)
        self.reading.append(watch)
        try:
            yield watch
        finally:
            self.reading.remove(watch)

    def stir(self, job_uuid: str) -> None:
        """Wake the readers of the job's log."""
        self._changed.setdefault(job_uuid, threading.Event()).set()

    def pending_reason(self, job: Job) -> str | None:
        return "waiting for a VM: host is full (4 of 4)" if job.state is JobState.SCHEDULED else None


@dataclass(eq=False)
class DummyWatch:
    changed: threading.Event
    engine: DummyEngine

    def wait(self, timeout: float) -> bool:
        if self.engine.meanwhile:
            self.engine.meanwhile.pop(0)()
        if self.engine.clock is not None and not self.changed.is_set():
            self.engine.clock.turn(timeout)
            return False
        changed = self.changed.wait(timeout)
        self.changed.clear()
        return changed


def until(look: Callable[[], bool], seconds: float = 5.0) -> None:
    """Poll until it is true; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "not in time"
        threading.Event().wait(0.01)


@dataclass
class World:
    """A service without users, and helpers to fill it."""

    storage: Storage
    engine: DummyEngine
    clock: TurnableClock
    app: falcon.App[Any, Any]
    anonymous: testing.TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.anonymous = testing.TestClient(self.app)

    def join(self, email: str, name: str = "A Name", cents: int = 1000) -> Account:
        """Add a user with an API key, and money in the personal organization."""
        user = self.storage.users.create(email, name)
        _, token = self.storage.tokens.create_api_key(user.id, "tests")
        organization = self.storage.organizations.by_slug(user.personal_org_slug)
        assert organization is not None
        if cents:
            self.storage.ledger.append(organization.id, cents, LedgerSource.ADMIN_GRANT, "for the tests")
        client = testing.TestClient(self.app, headers={"Authorization": f"Bearer {token}"})
        return Account(self, email, user.personal_org_slug, organization.id, token, client)


@dataclass
class Account:
    """A user with an API key and an organization."""

    world: World
    email: str
    org: str
    org_id: int
    token: str
    client: testing.TestClient

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

    def joins(self, other: Account, role: Role) -> None:
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
        world.engine.stir(self.uuid)

    def assign(self, lease_uuid: str) -> int:
        """Assign a lease, as the pool does; return the lease's id."""
        storage = self.build.account.world.storage
        lease = storage.leases.assign(
            self.stored.id,
            provider="sandbox",
            image=None,
            shape=Shape(),
            network=True,
            warm_lease_id=None,
            lease_uuid=lease_uuid,
        )
        assert lease is not None
        storage.leases.active(lease.id)
        return lease.id

    def run_for(self, seconds: float) -> None:
        """Run the job's command for some seconds, then pass the job."""
        world = self.build.account.world
        lease_id = self.assign(str(uuid4()))
        world.storage.leases.start(lease_id, self.stored.id)
        world.clock.turn(seconds)
        world.storage.jobs.finish(
            self.stored.id, JobState.RUNNING, JobState.PASSED, Outcome(exit_code=0), lease_id=lease_id, billable=True
        )

    def end(self, state: JobState = JobState.PASSED) -> None:
        """Move the job to a terminal state."""
        world = self.build.account.world
        assert world.storage.jobs.move(self.stored.id, self.stored.state, state)
        world.engine.stir(self.uuid)
