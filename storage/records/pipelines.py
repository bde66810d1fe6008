"""Pipelines, as people and repositories describe them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Declaration", "NewPipeline", "Pipeline", "PipelineChanges", "Visibility"]


class Visibility(StrEnum):
    """Who may read a pipeline's builds, jobs and logs."""

    PRIVATE = "private"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """What a caller says of a pipeline it creates; ``slug`` is already derived and valid."""

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


class PipelineChanges(TypedDict, total=False):
    """What may be changed of a pipeline; what is absent stays."""

    name: str
    description: str | None
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    repo_name: str | None
    source_slug: str | None
    fail_fast: bool


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named, repeatable CI definition in an organization.

    ``build_count`` is also the number of its latest build: none is skipped, nor removed.
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
    build_count: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a repository's files say of a pipeline; ``triggers`` as they stand in the envelope.

    ``archived_at`` is since when they say so no more.
    """

    name: str
    allow_manual: bool
    triggers: tuple[Any, ...]
    archived_at: datetime | None = None
