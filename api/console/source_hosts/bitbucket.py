"""Connecting workspaces of Bitbucket in a browser: the way there, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from api.console.pages import Page, redirect
from api.doors.http import call_of
from api.errors.catalog import ApiError
from api.openapi.operations import performs
from api.operations import bitbucket

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site
    from api.operations.operation import Call


class BitbucketPage(Page):
    """``/integrations/bitbucket`` and the callback below it; the state is signed for the browser's user."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send an admin of the organization ``?org=`` to Bitbucket."""
        names = {"org": req.get_param("org") or ""}
        resp.location = bitbucket.get_oauth_url.perform(self._call(req), names, dict).url
        resp.status = 303
        resp.cache_control = ["no-store"]

    @performs("connectBitbucket")
    def on_get_callback(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Connect the workspaces of the person whom Bitbucket sends back."""
        call, code = self._call(req), req.get_param("code")
        if not code:
            raise ApiError("bitbucket_connect_failed", "Bitbucket sent no code: you declined, or something is amiss")
        body = bitbucket.ConnectBitbucketRequest(code, req.get_param("state") or "")
        resp.context.record = record = bitbucket.connect_bitbucket.perform(call, {}, lambda: body)
        redirect(req, resp, f"{quote(record.org)}/repositories")

    def _call(self, req: falcon.Request) -> Call:
        return call_of(req, self._site.service, self._site.access.caller(req))
