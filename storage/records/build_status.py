"""The status of pipelines, as badges and monitors show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.builds import BuildState

__all__ = ["PipelineStatus"]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline with the state of its latest build on a branch, and its last finished build there.

    What a pipeline without such a build lacks is None.
    """

    organization_slug: str
    pipeline_slug: str
    pipeline_name: str
    created_at: datetime
    latest_state: BuildState | None
    finished_number: int | None
    finished_state: BuildState | None
    finished_at: datetime | None
    error_code: str | None
