"""Previews in the console: the way in for members, the end, and their part of the page of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from api.console.errors import Page
from api.console.operation_form import OperationForm, leads_to
from api.errors.catalog import ApiError
from api.operations import previews
from storage import immutable

if TYPE_CHECKING:
    from api.console.site import Site
    from api.openapi.operations import Routes
    from storage import Build, Job, Preview

_WAY_IN = "/console/previews/{preview}"


@immutable
class ShownPreview:
    """The preview of a job, as pages show it; ``way_in`` is below the root."""

    preview: Preview
    job: Job
    way_in: str
    price: str


def add_preview_pages(routes: Routes, site: Site, build: str) -> None:
    """Route the way in, and the form below the path of a build's page."""
    routes.add_page(_WAY_IN, PreviewEntrance(site))
    back = leads_to(lambda params, _: "{org}/pipelines/{pipeline}/builds/{number}".format_map(params))
    routes.add_page(f"{build}/previews/{{preview}}/end", OperationForm(site, previews.end_preview, back))


def shown_preview(site: Site, job: Job) -> ShownPreview | None:
    """Return the preview that a job has, or had; None without one."""
    found = site.storage.previews.by_uuid(job.preview_uuid) if job.preview else None
    return None if found is None else _shown(site, job, found)


def shown_previews(site: Site, build: Build) -> list[ShownPreview]:
    """Return the previews that the jobs of a build have, or had."""
    found = site.storage.previews.of_build(build.id)
    jobs = {each.id: each for each in site.storage.jobs.of_build(build.id)} if found else {}
    return [_shown(site, jobs[each.job_id], each) for each in found]


def _shown(site: Site, job: Job, preview: Preview) -> ShownPreview:
    price = site.amount(previews.cents_per_hour(site.storage, preview))
    return ShownPreview(preview, job, _WAY_IN.format(preview=preview.uuid).lstrip("/"), price)


class PreviewEntrance(Page):
    """``/console/previews/{preview}``: leads a member into a preview, at the path ``to``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, preview: str) -> None:
        """Lead there. To others a preview does not exist."""
        site = self._site
        caller = site.access.caller(req)
        found = site.storage.previews.by_uuid(preview)
        if found is None or site.storage.organizations.role(found.organization_id, caller.user.id) is None:
            raise ApiError.not_found("preview", preview)
        resp.status = falcon.HTTP_302
        resp.cache_control = ["no-store"]
        resp.location = previews.entry(site.service, found, caller, req.get_param("to") or "/")
