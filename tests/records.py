"""Rows that tests start from: users with money, pipelines, jobs and leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from storage import (
    Dependency,
    EdgeKind,
    ImageDigests,
    Job,
    JobState,
    Lease,
    LedgerSource,
    NewJob,
    NewPipeline,
    Organization,
    Outcome,
    Pipeline,
    Shape,
    Storage,
    User,
)


@dataclass(frozen=True)
class Owner:
    """A user with the personal organization and an API key."""

    user: User
    organization: Organization
    token: str


def new_owner(storage: Storage, email: str = "ada@example.org", name: str = "Ada", cents: int = 0) -> Owner:
    """Add a user with an API key, and money in the personal organization."""
    user = storage.users.create(email, name)
    _, token = storage.tokens.create_api_key(user.id, "tests")
    organization = storage.organizations.by_slug(user.personal_org_slug)
    assert organization is not None
    if cents:
        storage.ledger.append(organization.id, cents, LedgerSource.ADMIN_GRANT, "for the tests")
    return Owner(user, organization, token)


def new_pipeline(storage: Storage, organization: str = "Acme", email: str = "ann@example.org") -> Pipeline:
    """Add a user with another organization than the personal one, and its pipeline ``web``."""
    owner = storage.users.create(email, "Ann")
    made = storage.organizations.create(organization, "", owner.id)
    return storage.pipelines.create(made.id, NewPipeline("web", "Web", "https://git.example/acme/web", "main"))


def new_job(step_key: str = "step", *depends_on: tuple[int, EdgeKind, bool], **fields: Any) -> NewJob:
    """Return a planned job with the values of a bare step, in the image debian:12."""
    given: dict[str, Any] = {
        "name": step_key,
        "command": "true",
        "image": "debian:12",
        "env": {},
        "shape": Shape(),
        "timeout_seconds": None,
        "network": True,
        "retry_policy": None,
        "soft_fail_policy": None,
        "artifacts": (),
        "secrets": (),
        "cache_policy": "none",
        "cache_key": None,
        "depends_on": tuple(Dependency(*each) for each in depends_on),
    }
    return NewJob(step_key=step_key, **(given | fields))


def assign(storage: Storage, job: Job, **fields: Any) -> Lease | None:
    """Assign a new VM to a job, as the pool does; None if the job is not scheduled any more."""
    given: dict[str, Any] = {
        "provider": "sandbox",
        "image": job.image,
        "shape": job.shape,
        "network": job.network,
        "parked_lease_id": None,
        "lease_uuid": str(uuid4()),
    }
    return storage.leases.assign(job.id, **(given | fields))


def assigned(storage: Storage, job: Job, **fields: Any) -> Lease:
    """Assign a new VM to a scheduled job."""
    lease = assign(storage, job, **fields)
    assert lease is not None
    return lease


def started(storage: Storage, job: Job, digests: ImageDigests | None = None, **fields: Any) -> Lease:
    """Take a scheduled job to ``running`` in a new VM."""
    lease = assigned(storage, job, **fields)
    assert storage.leases.active(lease.id)
    assert storage.leases.start(lease.id, job.id, digests=digests)
    return lease


def finish(storage: Storage, job: Job, lease: Lease, to: JobState = JobState.PASSED, **outcome: Any) -> None:
    """Take a running job to a terminal state and bill its lease; ``exit_code`` is 0 unless it is given."""
    ended = Outcome(**({"exit_code": 0} | outcome))
    assert storage.jobs.finish(job.id, JobState.RUNNING, to, ended, lease_id=lease.id, billable=True)
