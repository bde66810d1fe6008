"""The errors of pages, and unknown paths, as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.errors.catalog import ApiError

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.request import ApiRequest
    from storage import Storage

_HTML = "text/html"
_MAX_CHARS = 100
_OF_PROGRAMS = ("/api/", "/v0/")


class Page:
    """A resource that people see in a browser, errors included."""


class ErrorsAsPages:
    """Middleware that shows the errors of pages, and unknown paths, as pages; those of the API stay JSON."""

    def __init__(self, storage: Storage, cookies: Cookies) -> None:
        self._storage = storage
        self._cookies = cookies

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Show the error, if there is one; a page that needs a session leads to the sign-in, and back."""
        error = resp.context.get("error")
        if not isinstance(error, ApiError):
            return
        if error.problem.code == "route_not_found":
            if _HTML not in req.accept or req.path.startswith(_OF_PROGRAMS):
                return
            self._cookies.caller(req)
            error = ApiError(error.problem.code, f"there is no page {req.path[:_MAX_CHARS]}", headers=error.headers)
        elif not isinstance(resource, Page):
            return
        from api.console.pages import Pages, redirect  # noqa: PLC0415 - programs see no page

        if error.problem.code == "unauthorized" and req.asked in {"GET", "HEAD"}:
            resp.data = None
            redirect(req, resp, f"login?{urlencode({'next': req.relative_uri})}")
        else:
            Pages(self._storage, self._cookies).show_error(req, resp, error)
