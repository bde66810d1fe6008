"""The cached disks of an organization, by pipeline."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from api.console.pages import Page
from storage import Role, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import falcon

    from api.console.site import Site
    from storage import CacheEntry


@immutable
class PipelineCache:
    """The cached disks of a pipeline, the one that was used last first."""

    pipeline: str
    entries: Sequence[CacheEntry]

    @property
    def bytes(self) -> int:
        """The size of the measured disks."""
        return sum(each.bytes or 0 for each in self.entries)

    @property
    def hits(self) -> int:
        """The jobs that they saved."""
        return sum(each.hits for each in self.entries)


class CachesPage(Page):
    """``/{org}/caches``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show the cached disks to a member; only admins remove them."""
        member = self._site.access.member(req, org)
        found = self._site.storage.cache.entries(member.organization.slug)
        newest = sorted(found, key=lambda each: (each.pipeline_slug, -each.last_used_at.timestamp()))
        self._site.pages.show(
            req,
            resp,
            "organization/caches",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            caches=[
                PipelineCache(slug, tuple(each)) for slug, each in groupby(newest, lambda each: each.pipeline_slug)
            ],
            form_token=self._site.form_token(req),
        )
