"""Pipelines, their changes, and their declarations in repositories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "CancelSuperseded",
    "Declaration",
    "DeclaringRepository",
    "NewPipeline",
    "Pipeline",
    "PipelineChanges",
    "Visibility",
]


class Visibility(StrEnum):
    """Read access to a pipeline's builds, jobs and logs: by members only, or by everyone."""

    PRIVATE = "private"
    PUBLIC = "public"


class CancelSuperseded(StrEnum):
    """The builds that a newer build of their branch or pull request cancels.

    Those that have not begun; also those that run, but for the default branch's; or these too.
    """

    WAITING = "waiting"
    BRANCHES = "branches"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """A pipeline to create; ``slug`` is already derived and valid."""

    slug: str
    name: str
    repository: str
    default_branch: str
    description: str | None = None
    repo_name: str | None = None
    visibility: Visibility = Visibility.PRIVATE
    allow_manual: bool = True
    fail_fast: bool = False
    source_slug: str | None = None
    concurrency_group: str | None = None
    concurrency_limit: int = 1
    cancel_superseded: CancelSuperseded | None = None


class PipelineChanges(TypedDict, total=False):
    """Changes of a pipeline; absent fields stay as they are."""

    name: str
    description: str | None
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    repo_name: str | None
    source_slug: str | None
    fail_fast: bool
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named CI definition of an organization.

    Builds of an organization with the same ``concurrency_group`` run at most ``concurrency_limit`` at a time. The group
    may contain ``{branch}``. Without a ``cancel_superseded`` of its own the organization's applies, else the host's.

    ``build_count`` is also the number of its latest build, because no number is skipped and no build removed.
    """

    id: int
    uuid: str
    organization_id: int
    slug: str
    name: str
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    description: str | None
    repo_name: str | None
    source_slug: str | None
    fail_fast: bool
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    build_count: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of a pipeline in its repository's files; ``triggers`` are those of the envelope.

    ``archived_at`` is when the repository dropped the declaration.
    """

    name: str
    allow_manual: bool
    triggers: tuple[Any, ...]
    archived_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeclaringRepository:
    """A repository whose files declare pipelines.

    ``address`` is its clone URL, or another name for it where that is not known, such as the ``repo_name`` itself.
    """

    organization_id: int
    repo_name: str
    address: str
