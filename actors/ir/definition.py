"""A pipeline read from either shape of the IR, and its plan."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from actors.ir.unknown_keys import UnknownKey
    from storage import NewJob


@immutable
class Definition:
    """A valid pipeline in document order. Dependencies may still point forwards or form cycles.

    ``unknown_keys`` are those of its document that have no effect.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)


@immutable
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones only (pipeline-ir.md, "Plan").

    A job that builds in another has that job's image, because its disk is based on it.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each of them."""
        return tuple(map(str, self.unknown_keys))
