"""The page of search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.errors import Page
from api.console.pipelines import BuildLine, host_pages
from api.operations.search import found_by
from storage import MOST_LETTERS, BuildPeople, SearchResults

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site


class SearchPage(Page):
    """``/search``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the pipelines, builds and people with the words ``q`` in the caller's organizations."""
        caller, text = self._site.access.caller(req), (req.get_param("q") or "").strip()[:MOST_LETTERS]
        found = found_by(self._site.storage, caller.user.id, text) if text else SearchResults()
        listed = self._site.storage.build_history.listed({each.id for each in found.builds})
        pages, pipelines = host_pages(self._site, found.builds), self._site.storage.pipelines
        names = {
            each: its.name for each in {build.pipeline_id for build in found.builds} if (its := pipelines.by_id(each))
        }
        self._site.pages.show(
            req,
            resp,
            "pipelines/search",
            text=text,
            found=found,
            lines=[
                BuildLine(
                    each,
                    people=listed[each.id].people if each.id in listed else BuildPeople(),
                    pipeline=names.get(each.pipeline_id, ""),
                    pages=pages[each.id],
                )
                for each in found.builds
            ],
        )
