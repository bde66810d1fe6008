"""A pipeline read from either shape of the IR, and its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import NewJob

__all__ = ["Definition", "Plan"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A valid pipeline in document order. Dependencies may still point forwards or form cycles."""

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones only (pipeline-ir.md, "Plan").

    A job that builds in another has that job's image, because its disk is based on it.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
