"""A pipeline as both shapes of the IR say it, and its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Shape

__all__ = ["Definition", "Dependency", "Plan", "PlannedJob"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """That a job waits for another, the one at ``position`` among the same jobs.

    ``builds_in``: it also starts from the other's disk. ``continue_on_failure``: any terminal state of the other will
    do (pipeline-ir.md, "Graph shape").
    """

    position: int
    builds_in: bool = False
    continue_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One command with all that the IR says of it; ``depends_on`` is sorted by position, one entry a job.

    ``image`` is None where the default image of the service is wanted. In a plan a job that builds in another has the
    other's, which its disk stands on.
    ``retry_policy`` holds ``limit`` and, where given, ``exit_codes`` and ``backoff_seconds``. ``soft_fail_policy``
    holds ``exit_codes``: a list, or None for any. ``cache_key`` is None where nothing is to be cached.
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
    """A valid pipeline in document order; its dependencies may still point forwards, and in circles."""

    jobs: tuple[PlannedJob, ...]
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones alone (pipeline-ir.md, "Plan")."""

    jobs: tuple[PlannedJob, ...]
    timeout_seconds: int | None = None
