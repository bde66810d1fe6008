"""Home: for each organization of the caller what runs, what waits and why, and what failed last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors import wait_reason
from api.console.pages import Page, redirect
from api.console.words import title_of
from storage import BuildState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import falcon

    from api.console.site import Site
    from storage import Build, Organization

__all__ = ["BuildLine", "HomePage", "OrganizationNews"]

_MOST_ORGANIZATIONS = 50
_MOST_UNFINISHED = 20
_MOST_FAILED = 5
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class BuildLine:
    """A build in a list; ``why`` says why it waits or failed, empty if neither, ``who`` whose it is."""

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


@dataclass(frozen=True, slots=True)
class OrganizationNews:
    """An organization with its unfinished builds and the last that failed."""

    organization: Organization
    unfinished: tuple[BuildLine, ...]
    failed: tuple[BuildLine, ...]
    empty: bool


class HomePage(Page):
    """``/``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the news of the caller's organizations; without a session the way to sign in."""
        caller = self._site.access.optional_caller(req)
        if caller is None:
            redirect(req, resp, "login")
            return
        found = self._site.storage.organizations.page(caller.user.id, _MOST_ORGANIZATIONS, None).rows
        news = [self._news(organization) for organization in found]
        self._site.pages.show(req, resp, "pipelines/home", news=news, url=self._url)

    def _news(self, organization: Organization) -> OrganizationNews:
        storage = self._site.storage
        unfinished = storage.build_history.unfinished(organization.id, _MOST_UNFINISHED)
        failed = storage.build_history.failed(organization.id, _MOST_FAILED)
        return OrganizationNews(
            organization,
            tuple(BuildLine(build, self._why(build)) for build in unfinished),
            tuple(BuildLine(build, _named(storage.build_history.failed_jobs(build.id))) for build in failed),
            empty=not unfinished and not failed and not storage.pipelines.page(organization.id, 1, None).rows,
        )

    def _why(self, build: Build) -> str:
        """Return why a build waits: what its first waiting job waits for."""
        if build.state is not BuildState.SCHEDULED:
            return ""
        if (reason := wait_reason(self._site.storage, build)) is not None:
            return reason
        if self._site.storage.renders.pending(build.id):
            return self._site.engine.renders_wait() or "its pipeline files are being rendered"
        reasons = (self._site.engine.pending_reason(job) for job in self._site.storage.jobs.of_build(build.id))
        return next((reason for reason in reasons if reason), "")


def _named(jobs: Sequence[str]) -> str:
    """Return the first names of jobs, and how many there are besides."""
    others = len(jobs) - _MOST_NAMES
    return ", ".join(jobs[:_MOST_NAMES]) + (f" and {others} more" if others > 0 else "")
