"""Records of builds and jobs as commands get them, of which a test gives what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from api.operations import BuildRecord, JobRecord
from storage import BuildState, JobState, Priority, VerifiedEvent, showing

START = datetime(2026, 1, 2, tzinfo=UTC)


class _Unset:
    """Fields that are None, unless a test gives them."""

    soft_failed = cache_hit = untrusted = strict_shell = False
    warnings = depends_on = ()
    inputs: Mapping[str, str] = MappingProxyType({})
    service_image_digests = inputs
    command = pipeline_slug = ""
    attempt = 1

    def __getattr__(self, _name: str) -> None:
        return None


def shown_build(state: str = "running", **fields: Any) -> BuildRecord:
    """Return a build that was created at `START`."""
    given = {"uuid": "build", "number": 3, "state": BuildState(state), "created_at": START, **fields}
    given = {"priority": Priority.BRANCH, "event": VerifiedEvent.PUSH, **given}
    return showing(BuildRecord, _Unset(), **given)


def shown_job(key: str, state: str = "running", **fields: Any) -> JobRecord:
    """Return a job that was created and started at `START`."""
    given = {"uuid": key, "name": key, "step_key": key, "state": JobState(state), "created_at": START, **fields}
    return showing(JobRecord, _Unset(), **{"started_at": START, "services": (), **given})
