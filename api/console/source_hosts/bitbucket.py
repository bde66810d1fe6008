"""Connecting workspaces of Bitbucket in a browser: the way there, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from api.console.pages import Page, redirect
from api.errors.catalog import ApiError
from api.openapi.operations import performs

if TYPE_CHECKING:
    import falcon

    from api.resources.source_hosts.bitbucket import BitbucketResource


class BitbucketPage(Page):
    """``/integrations/bitbucket`` and the callback below it; the state is signed for the browser's user."""

    def __init__(self, resource: BitbucketResource) -> None:
        self._resource = resource

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send an admin of the organization ``?org=`` to Bitbucket."""
        resp.location = self._resource.authorize_url(req, req.get_param("org") or "")
        resp.status = 303
        resp.cache_control = ["no-store"]

    @performs("connectBitbucket")
    def on_get_callback(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Connect the workspaces of the person whom Bitbucket sends back."""
        code = req.get_param("code")
        if not code:
            raise ApiError("bitbucket_connect_failed", "Bitbucket sent no code: you declined, or something is amiss")
        record = self._resource.connect(req, code, req.get_param("state") or "")
        resp.context.record = record
        redirect(req, resp, f"{quote(record.org)}/repositories")
