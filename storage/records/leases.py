"""Leased VMs, their snapshots, VMs that are held, disks in the cache, and previews of disks."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal, get_args

from storage.data_classes import example, hidden, immutable, shown_as
from storage.records.jobs import Shape  # noqa: TC001 - for the columns of leases

if TYPE_CHECKING:
    from datetime import datetime

ProviderName = Literal["sandbox", "qemu", "incus"]
"""The names by which the owner of a host chooses providers."""

PROVIDERS: tuple[ProviderName, ...] = get_args(ProviderName)


class LeaseState(StrEnum):
    """States of a lease. Its row exists before the VM does, and is ``ended`` after the VM is gone."""

    CREATING = "creating"
    PARKED = "parked"
    ACTIVE = "active"
    ENDED = "ended"


@immutable
class Lease:
    """The lease of one VM, from before its creation to its end.

    ``started_at`` is when the job's command, and with it billing, started; a lease that never ran a command has none
    and is free. ``uuid`` is also the VM's name at its provider. ``build_id`` is set if the VM renders a build instead
    of running a job. ``member`` is the member of a cluster that the VM is on, None where all VMs are on one host.
    """

    id: int
    uuid: str
    organization_id: int | None
    job_id: int | None
    attempt: int
    provider: str
    image: str | None
    shape: Shape
    network: bool
    state: LeaseState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    amount_cents: int
    build_id: int | None = None
    member: str | None = None

    @property
    def is_preview(self) -> bool:
        """True if the VM renders an archive of no build: it has an image, but is nobody's."""
        return self.image is not None and not self.is_fork and self.job_id is None and self.build_id is None

    @property
    def is_fork(self) -> bool:
        """True if the VM has a fork of a job's disk: an organization's, of neither a job nor a build."""
        return self.organization_id is not None and self.job_id is None and self.build_id is None


@immutable
class PastUse:
    """An organization's use of a VM, from the start of the command to its end."""

    organization_id: int
    cpu: int
    started_at: datetime
    finished_at: datetime


@immutable
class Snapshot:
    """A job's disk as its command left it, kept by a provider under ``name``.

    ``base`` is the snapshot that the disk started from, None if it started from an image; ``bytes`` is its size beyond
    that, None until it is measured. ``cache_name`` is the name under which it is, or would be, cached; None if its
    command failed, or nobody knows what exactly ran in it.
    """

    name: str
    job_id: int
    provider: str
    created_at: datetime
    base: str | None = None
    bytes: int | None = None
    cache_name: str | None = None


@immutable
class KeptDisk:
    """The disk of a failed job that is kept for some days, by its snapshot.

    ``bytes`` is its size beyond the disk below it, None until it is measured.
    """

    snapshot: str
    organization_id: int
    created_at: datetime
    bytes: int | None


@immutable
class DiskOfJob:
    """A kept disk of an organization, by its job; ``bytes`` as in `KeptDisk`."""

    pipeline_slug: str
    build_number: int
    step_key: str
    job_uuid: str
    bytes: int | None
    created_at: datetime


@immutable
class NewCacheEntry:
    """A disk to cache under ``name``, which the service makes (engine.md, "Cache across builds").

    ``key`` is the one that the pipeline gives, a part of the name. ``image`` is the image in the store that the disk
    starts from, not the name that the pipeline uses for it.
    """

    name: str
    pipeline_id: int
    key: str
    image: str
    snapshot: str


@immutable
class CacheEntry:
    """A cached disk, and the job that left it.

    ``name`` is made by the service of all that can change what the job does; ``key`` is the part that the pipeline
    gives. ``bytes`` is the disk's size beyond the disk below it, null until it is measured; ``hits`` are the jobs that
    it saved.
    """

    id: int
    organization_slug: str = hidden()
    pipeline_slug: str = shown_as("pipeline")
    name: str = example("b1946ac92492d2347c6235b4d2611184e7d1a1f0c7e5b0f6a4f86d2f2c1c1f0a")
    key: str = example("9f2c41d6a0b8e37f")
    image: str
    job_name: str = shown_as("job")
    job_id: int = hidden()
    build_number: int
    snapshot: str = hidden()
    provider: str = hidden()
    """Only its VMs can use the disk."""

    bytes: int | None
    hits: int
    created_at: datetime
    last_used_at: datetime


class HoldEnd(StrEnum):
    """Reasons for the end of a hold: its time, a person, a lost VM, a deleted pipeline or organization."""

    EXPIRED = "expired"
    RELEASED = "released"
    KILLED = "killed"
    LOST = "lost"
    DELETED = "deleted"


@immutable
class Hold:
    """The VM of a failed job, or of a fork of its disk, held from ``started_at``.

    It is held until ``until`` at the latest. ``opened_by`` is who has opened the fork, None if it is the job's own VM.
    ``vm`` is its lease's UUID. ``micro_cents`` is its price per second. ``reason`` is None until the hold ends or is
    shortened. ``finished_at`` is when it ended; from then on ``amount_cents`` is its price. ``budget_id`` is the API
    key whose budget pays for it.
    """

    id: int
    lease_id: int
    vm: str
    job_id: int
    started_at: datetime
    until: datetime
    micro_cents: int
    reason: HoldEnd | None
    finished_at: datetime | None
    amount_cents: int
    opened_by: str | None = None
    budget_id: int | None = None


@immutable
class ForkTerminal:
    """A terminal on a fork of a job's disk, by the hold of its VM, whose lease has the same ``uuid``.

    It is the user's alone, and ends with the token that opened it. ``before`` is true if the disk is that from before
    the job's command. It ends at ``until`` at the latest; ``why_ended`` is a sentence, None until somebody knows.
    """

    hold_id: int
    uuid: str
    lease_id: int
    organization_id: int
    job_id: int
    user_id: int
    token_id: int | None
    before: bool
    opened_by: str
    started_at: datetime
    until: datetime
    finished_at: datetime | None
    why_ended: str | None


PREVIEW_OPENER = "preview"
"""The name by which previews open forks."""


class PreviewState(StrEnum):
    """The state of a preview: its VM is made when somebody looks, and ends when nobody does."""

    ASLEEP = "asleep"
    WAKING = "waking"
    AWAKE = "awake"
    GONE = "gone"


@immutable
class Preview:
    """A passed job's disk that serves a port, until ``until`` at the latest.

    ``disk`` is its snapshot. It is ``public`` if it is for everyone. ``hold_id`` is the hold of its last VM, whose
    program ``answers`` once it does; ``holding`` is true while that VM is held. ``failure`` is why it did not wake the
    last time. ``why_ended`` is a sentence, None until it is gone.
    """

    id: int
    uuid: str
    organization_id: int
    pipeline_id: int
    job_id: int
    disk: str
    public: bool
    created_at: datetime
    until: datetime
    hold_id: int | None
    answers: bool
    looked_at: datetime | None
    failure: str | None
    ended_at: datetime | None
    why_ended: str | None
    holding: bool

    @property
    def state(self) -> PreviewState:
        """The state."""
        if self.ended_at is not None:
            return PreviewState.GONE
        if not self.holding:
            return PreviewState.ASLEEP
        return PreviewState.AWAKE if self.answers else PreviewState.WAKING
