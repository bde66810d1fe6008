"""The forms of a build: cancel, approve, retry, rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import wait_reason
from api.builds.approving import approve_build
from api.builds.canceling import cancel_build
from api.builds.retrying import rerun_build
from api.console.pages import Page, redirect
from api.openapi.operations import performs
from api.resources.builds import BuildRecord

if TYPE_CHECKING:
    import falcon

    from api.builds.creation import BuildCreation
    from api.console.site import Site
    from storage import Build

__all__ = ["BuildForms"]


class BuildForms(Page):
    """``cancel``, ``approve``, ``retry`` and ``rebuild`` below a build's page; each leads back to it."""

    def __init__(self, site: Site, creation: BuildCreation) -> None:
        self._site = site
        self._creation = creation

    @performs("cancelBuild")
    def on_post_cancel(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Cancel the build."""
        self._site.cookies.form(req, resp)
        build = self._site.access.build(req, org, pipeline, number)
        self._show(req, resp, cancel_build(self._site.storage, self._site.engine, build))

    @performs("approveBuild")
    def on_post_approve(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Let the build of a pull request from a fork run."""
        self._site.cookies.form(req, resp)
        member, _ = self._site.access.pipeline(req, org, pipeline)
        build = self._site.access.build(req, org, pipeline, number)
        self._show(req, resp, approve_build(self._site.storage, self._site.engine, build, member.caller.user))

    @performs("retryBuild")
    def on_post_retry(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Run again what did not pass."""
        self._site.cookies.form(req, resp)
        build = self._site.access.build(req, org, pipeline, number)
        self._show(req, resp, rerun_build(self._site.storage, self._site.engine, build))

    @performs("rebuildBuild")
    def on_post_rebuild(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Build it again, as a new build."""
        self._site.cookies.form(req, resp)
        member, found = self._site.access.pipeline(req, org, pipeline)
        build = self._site.access.build(req, org, pipeline, number)
        self._show(req, resp, self._creation.rebuild(req, found, build, member.caller.user.id, None))

    def _show(self, req: falcon.Request, resp: falcon.Response, build: Build) -> None:
        resp.context.record = BuildRecord.of(build, wait_reason(self._site.storage, build))
        redirect(req, resp, build.page)
