"""A pipeline read from either shape of the IR, and its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Shape

__all__ = ["Definition", "Dependency", "Plan", "PlannedJob"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of one job on the job at ``position`` in the same list.

    With ``builds_in`` the dependent also starts from the other's disk. With ``continue_on_failure`` any terminal state
    of the other satisfies it (pipeline-ir.md, "Graph shape").
    """

    position: int
    builds_in: bool = False
    continue_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One command of a pipeline with its attributes.

    ``depends_on`` is sorted by position and has one entry per job. ``image`` is None for the service's default image.
    In a plan, a job that builds in another has that job's image, because its disk is based on it.
    ``retry_policy`` holds ``limit`` and, if given, ``exit_codes`` and ``backoff_seconds``. ``soft_fail_policy``
    holds ``exit_codes``: a list, or None for any. ``cache_key`` is None if the job is not cached.
    """

    key: str
    name: str
    command: str
    image: str | None
    env: Mapping[str, str]
    shape: Shape
    depends_on: tuple[Dependency, ...] = ()
    timeout_seconds: int | None = None
    network: bool = True
    retry_policy: Mapping[str, object] | None = None
    soft_fail_policy: Mapping[str, object] | None = None
    artifacts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    cache_policy: str = "none"
    cache_key: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A valid pipeline in document order. Dependencies may still point forwards or form cycles."""

    jobs: tuple[PlannedJob, ...]
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones only (pipeline-ir.md, "Plan")."""

    jobs: tuple[PlannedJob, ...]
    timeout_seconds: int | None = None
