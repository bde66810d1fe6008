"""Builds in lists, with why they wait or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import wait_reason
from api.console.builds.error_position import cause_of
from api.console.words import title_of
from storage import BuildState, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.console.site import Site
    from storage import Build

_MOST_NAMES = 3


@immutable
class BuildLine:
    """A build in a list; ``why`` says why it waits, failed or was canceled, ``who`` whose it is."""

    build: Build
    why: str = ""
    who: str = ""

    @property
    def title(self) -> str:
        """The first line of its message."""
        return title_of(self.build.message, self.build.commit)

    @property
    def runs(self) -> bool:
        """True if time passes for it."""
        return self.build.started_at is not None and self.build.finished_at is None


def line_of(site: Site, build: Build, who: str = "") -> BuildLine:
    """Return the line of a build: one that waits with its reason, one that failed with the jobs that did."""
    match build.state:
        case BuildState.SCHEDULED:
            return BuildLine(build, _wait(site, build), who)
        case BuildState.FAILED:
            failed = _named(site.storage.build_history.failed_jobs(build.id))
            return BuildLine(build, failed or cause_of(build.error_message or ""), who)
        case _:
            return BuildLine(build, build.error_message or "", who)


def _wait(site: Site, build: Build) -> str:
    """Return why a build waits: what its first waiting job waits for."""
    if (reason := wait_reason(site.storage, build)) is not None:
        return reason
    if site.storage.renders.pending(build.id):
        return site.engine.renders_wait() or "its pipeline files are being rendered"
    reasons = (site.engine.pending_reason(job) for job in site.storage.jobs.of_build(build.id))
    return next((reason for reason in reasons if reason), "")


def _named(jobs: Sequence[str]) -> str:
    """Return the first names of jobs, and how many there are besides."""
    others = len(jobs) - _MOST_NAMES
    return ", ".join(jobs[:_MOST_NAMES]) + (f" and {others} more" if others > 0 else "")
