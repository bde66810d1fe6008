"""Home: for each organization of the caller what runs, what waits and why, and what failed last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page, redirect
from api.console.pipelines.lines import line_of
from storage import immutable

if TYPE_CHECKING:
    import falcon

    from api.console.pipelines.lines import BuildLine
    from api.console.site import Site
    from storage import Build, Organization

_MOST_ORGANIZATIONS = 50
_MOST_UNFINISHED = 20
_MOST_FAILED = 5


@immutable
class OrganizationNews:
    """An organization with its unfinished builds, those that failed last, and its last one, if any."""

    organization: Organization
    unfinished: tuple[BuildLine, ...]
    failed: tuple[BuildLine, ...]
    last: Build | None


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
            tuple(line_of(self._site, build) for build in unfinished),
            tuple(line_of(self._site, build) for build in failed),
            storage.build_history.last(organization.id),
        )
