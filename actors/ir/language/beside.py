"""The jobs that a build has already, for the check of jobs that join it later. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage import Dependency, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping


@immutable
class KnownJob:
    """A job of a build.

    ``of`` is the key under which its file declares it; the ``key`` of a cell has the cell's values, too. ``awaits`` are
    its dependencies if its own condition has ``skipped`` it. ``bytes`` is the size of its command, variables and
    services.
    """

    key: str
    of: str
    image: str | None = None
    keeps_files: bool = False
    has_disk: bool = False
    skipped: bool = False
    awaits: tuple[Dependency, ...] = ()
    bytes: int = 0


@immutable
class Beside:
    """The jobs of a build in its order; the one at the position ``maker`` generates more.

    The new jobs may generate others in turn if they ``may_generate``: this goes to a limited depth.
    """

    jobs: tuple[KnownJob, ...] = ()
    maker: int = 0
    may_generate: bool = True

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Beside:
        """Return what a document says, as `dataclasses.asdict` writes it."""
        jobs = (KnownJob(**{**each, "awaits": ()}) for each in document["jobs"])
        return cls(tuple(jobs), document["maker"], document["may_generate"])

    @property
    def by_name(self) -> dict[str, list[KnownJob]]:
        """The jobs by the names that others need them by; of a matrix all cells."""
        found: dict[str, list[KnownJob]] = {}
        for each in self.jobs:
            found.setdefault(each.of, []).append(each)
        return found

    @property
    def taken(self) -> set[str]:
        """The names that no other job may have."""
        return {name for each in self.jobs for name in (each.key, each.of)}


ALONE = Beside()
"""No jobs, for a file that declares all jobs of a build."""
