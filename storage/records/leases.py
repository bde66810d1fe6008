"""Leased VMs and what they left behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.jobs import Shape

__all__ = ["Lease", "LeaseState", "PastUse", "Snapshot"]


class LeaseState(StrEnum):
    """The life of a leased VM. A row exists before its VM does and says ``ended`` after the VM is gone."""

    CREATING = "creating"
    WARM = "warm"
    ACTIVE = "active"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Lease:
    """One VM, from before it is made until it is gone.

    ``started_at`` is when the job's command started, which is when billing starts; a lease that never ran a command
    has none and costs nothing. ``uuid`` is also the VM's name at its provider. ``build_id`` is set where a build is
    rendered in it and no job runs.
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


@dataclass(frozen=True, slots=True)
class PastUse:
    """A VM that an organization had, from its command's start to its end."""

    organization_id: int
    cpu: int
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job's disk as its command left it, kept by a provider under ``name``.

    ``base`` is the snapshot that it stands on, None where that is an image; ``bytes`` is what it takes beyond that,
    None until it is measured.
    """

    name: str
    job_id: int
    provider: str
    created_at: datetime
    base: str | None = None
    bytes: int | None = None
