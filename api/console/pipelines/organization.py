"""The pipelines of an organization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page
from api.console.pipelines.figures import BAR_HEIGHT, Figures, figures_of
from api.errors.catalog import ApiError
from storage import RESERVED_SLUGS, Role, immutable, slugify

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site
    from storage import Pipeline

_BARS = 20
_MOST_PIPELINES = 500


@immutable
class PipelineLine:
    """A pipeline in the list, with the figures of its last builds."""

    pipeline: Pipeline
    figures: Figures


class OrganizationPage(Page):
    """``/{org}``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the pipelines whose name has the text ``q``."""
        if slugify(org) != org or org in RESERVED_SLUGS:
            raise ApiError("route_not_found", "there is no such page")
        member = self._site.access.member(req, org)
        storage = self._site.storage
        wanted = (req.get_param("q") or "").strip().lower()
        pipelines = storage.pipelines.page(member.organization.id, _MOST_PIPELINES, None).rows
        recent = storage.build_history.recent(member.organization.id, _BARS)
        shown = [
            PipelineLine(pipeline, figures_of(recent.get(pipeline.id, [])))
            for pipeline in pipelines
            if wanted in pipeline.name.lower() or wanted in pipeline.slug
        ]
        self._site.pages.show(
            req,
            resp,
            "pipelines/organization",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            lines=shown,
            any=bool(pipelines),
            wanted=wanted,
            bar_height=BAR_HEIGHT,
            bars=_BARS,
            url=self._url,
        )
