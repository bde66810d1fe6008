"""Environments of organizations, and the gates of jobs that deploy to them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from storage.data_classes import example, hidden, immutable, shown_as
from storage.documents import shown_after
from storage.records.jobs import JobState  # noqa: TC001 - a model reads the annotations

if TYPE_CHECKING:
    from datetime import datetime

ENVIRONMENT_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""The pattern of the names of environments, which stand in addresses as they are."""

GATE_SECONDS = 7 * 24 * 3600
"""The time that people have for a gate, if its environment says nothing else."""


class EnvironmentChanges(TypedDict, total=False):
    """Changes of an environment; absent fields stay as they are."""

    url: str | None
    approvers: tuple[str, ...]
    not_author: bool
    gate_seconds: int


@immutable
class NewEnvironment:
    """An environment to create, whose parts are checked."""

    name: str
    url: str | None = None
    approvers: tuple[str, ...] = ()
    not_author: bool = False
    gate_seconds: int = GATE_SECONDS


@immutable
class Environment:
    """A place that jobs deploy to, one at a time.

    ``approvers`` are e-mail addresses of members, and roles: a role stands for all members who have its rights. Without
    any, its gates open by themselves, but for forks. With ``not_author`` the people of a build do not approve it.
    """

    id: int = hidden()
    organization_id: int = hidden()
    name: str = example("production")
    url: str | None = example("https://shop.example.org")
    approvers: tuple[str, ...] = example(["admin", "grace@example.org"])
    not_author: bool = example(value=True)
    gate_seconds: int = example(GATE_SECONDS)
    """The seconds after which a gate that nobody has answered is closed for good."""

    created_at: datetime


class GateState(StrEnum):
    """The state of a gate: somebody is to answer, or the answer. ``expired`` is that nobody did in time."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@immutable
class Gate:
    """The gate of one job in one build, from the time at which the job was ready for all else.

    ``decided_by`` is the person who approved or rejected, None if nobody did; ``reason`` is theirs, or that of the
    service.
    """

    job_id: int = hidden()
    state: GateState
    asked_at: datetime
    seconds: int = hidden()
    """The time that people have for it."""

    decided_at: datetime | None
    decided_by: str | None = example("grace@example.org")
    reason: str | None = example("the tests of the staging environment pass")

    @property
    @shown_after("asked_at")
    def expires_at(self) -> datetime:
        """The end of the time that people have for it."""
        return self.asked_at + timedelta(seconds=self.seconds)


@immutable
class Deployment:
    """A job that deploys to an environment, in one build.

    ``state`` is that of the job. ``approved_by`` is the person who let it run, null if nobody had to or has yet;
    ``created_by`` is the user who began the build, null if it was a push or the like.
    """

    id: int
    build_id: int = hidden()
    pipeline_slug: str = example("web")
    number: int
    branch: str | None
    commit: str | None
    job_uuid: str = shown_as("job_id")
    step_key: str = example("deploy")
    state: JobState
    waits: bool
    """True if its gate waits for an answer."""

    approved_by: str | None = example("grace@example.org")
    created_by: str | None = example("ada@example.org")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def name(self) -> str:
        """Its build and its job for people: PIPELINE/NUMBER KEY."""
        return f"{self.pipeline_slug}/{self.number} {self.step_key}"


@immutable
class DeployedEnvironment(Environment):
    """An environment, with the deployment that is there, and those that are to come.

    The ``current`` one has passed, and none that passed ended later.
    """

    current: Deployment | None
    waiting: tuple[Deployment, ...]
    """Those that wait for an answer, for the environment or for a VM, and the one that runs."""
