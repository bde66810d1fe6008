"""The fields of the API's records that commands read; others are ignored."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING

from storage import CancelSuperseded, Visibility, immutable

if TYPE_CHECKING:
    from storage import Pipeline

__all__ = [
    "PipelineView",
    "StatusView",
    "TokenView",
]


@immutable
class PipelineView:
    """The fields of a pipeline."""

    slug: str
    name: str
    repository: str
    default_branch: str
    description: str | None
    visibility: Visibility
    allow_manual: bool
    repo_name: str | None
    fail_fast: bool
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    build_count: int
    created_at: datetime
    strict_shell: bool | None = None

    @classmethod
    def of(cls, pipeline: Pipeline) -> PipelineView:
        """Return the view of a stored pipeline."""
        return cls(**{each.name: getattr(pipeline, each.name) for each in fields(cls)})


@immutable
class StatusView:
    """The answer of a service that is there."""

    status: str


@immutable
class TokenView:
    """A session token, shown only once."""

    token: str
