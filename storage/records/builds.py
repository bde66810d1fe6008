"""Builds: what is asked for, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["Build", "BuildState", "KeyUse", "NewBuild", "RequestKey"]


class BuildState(StrEnum):
    """States of a build (engine.md, "States")."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    FAILING = "failing"
    PASSED = "passed"
    FAILED = "failed"
    CANCELING = "canceling"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self in {BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED}


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What a caller calls a request that it may send again; the hash, a SHA-256, is of the request itself."""

    user_id: int
    organization_id: int
    key: str
    request_hash: bytes


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What a request under a key has made: a build, which may have been rejected then and there.

    ``same_request`` says whether that request was the one that is asked about.
    """

    build_id: int
    rejected: bool
    same_request: bool


@dataclass(frozen=True, slots=True)
class NewBuild:
    """What a caller says of a build it creates."""

    branch: str
    commit: str
    message: str | None = None
    source: str = "api"
    env: Mapping[str, str] = field(default_factory=dict)
    pipeline_ir: str | None = None
    timeout_seconds: int | None = None
    source_archive: bytes | None = None
    source_sha256: str = ""
    key: RequestKey | None = None
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """One run of a pipeline. ``external_id`` is the ``id`` of the wire; ``uuid`` is the stable build id.

    ``debug`` asks for the VMs of its failed jobs to be held, for somebody to look into them.
    """

    id: int
    uuid: str
    external_id: str
    pipeline_id: int
    organization_id: int
    organization_slug: str
    pipeline_slug: str
    number: int
    state: BuildState
    branch: str | None
    commit: str | None
    message: str | None
    source: str
    timeout_seconds: int | None
    cancel_requested: bool
    has_source: bool
    source_sha256: str
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    logs_expired_at: datetime | None
    debug: bool

    @property
    def name(self) -> str:
        """What people call it: ORG/PIPELINE/NUMBER."""
        return f"{self.organization_slug}/{self.pipeline_slug}/{self.number}"

    @property
    def given_up(self) -> bool:
        """Whether its jobs are to end and no other is to start: it was canceled, or the service failed it."""
        return self.cancel_requested or self.error_code is not None
