"""The pages of the manual, for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api import manual
from api.console.errors import Page
from api.errors.catalog import ApiError
from api.http.files import StaticFile, StaticFilesResource

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.console.site import Site
    from api.middleware.rate_limits import RateLimits
    from api.openapi.operations import Routes

_MOST_CHARS = 200
_PNG = "image/png"


def add_manual_pages(routes: Routes, site: Site) -> None:
    """Route the manual below ``/docs``."""
    page = ManualPage(site.pages, site.cookies, site.rates)
    routes.add_page("/docs", page, "contents")
    routes.add_page("/docs/search", page, "search")
    routes.add_page("/docs/{name}", page)
    pictures = (StaticFile(each.name, _PNG) for each in sorted((manual.PAGES / "pictures").glob("*.png")))
    routes.add_page("/docs/pictures/{file}", StaticFilesResource("api.manual", *pictures, folder="pages/pictures"))


class ManualPage(Page):
    """``/docs``, ``/docs/{name}`` and ``/docs/search``."""

    def __init__(self, pages: Pages, cookies: Cookies, limits: RateLimits) -> None:
        self._pages = pages
        self._cookies = cookies
        self._limits = limits

    def on_get_contents(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the table of contents."""
        self._show(req, resp, "manual/contents")

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Show a page."""
        page = manual.page_of(name)
        if page is None:
            raise ApiError("route_not_found", f'the manual has no page "{name[:_MOST_CHARS]}"; /docs lists them all')
        self._show(req, resp, "manual/page", page=page)

    def on_get_search(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the sections that have some words."""
        words = (req.get_param("q") or "").strip()[:_MOST_CHARS]
        self._show(req, resp, "manual/search", words=words, found=manual.find(words))

    def _show(self, req: falcon.Request, resp: falcon.Response, template: str, **values: object) -> None:
        if self._cookies.caller(req) is None:
            self._limits.limit_address(req, resp)
        values = {"page": None, "words": "", **values}
        self._pages.show(req, resp, template, contents=manual.CONTENTS, title_of=manual.title_of, **values)
