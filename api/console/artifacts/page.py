"""The page of an artifact, which shows images and the beginning of texts, and the images themselves.

Whatever a job wrote, no script of it runs: a text is escaped, and an image has a type of an image and a policy that
allows nothing, which also holds where somebody opens it by its own address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.artifacts.preview import image_type, text_of
from api.console.pages import Page
from api.errors.catalog import ApiError
from api.http.files import SourceSlice
from api.operations.artifacts import stored_artifact
from api.operations.things import job_in_build

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site

_TEXT_BYTES = 128 * 2**10
_LARGEST_IMAGE = 20 * 2**20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


class ArtifactPage(Page):
    """``…/builds/{number}/artifacts/{id}`` and ``…/{id}/image``, for members."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, id: str) -> None:
        """Show an artifact, if it is an image or a text."""
        build = self._site.access.build(req, org, pipeline, number)
        artifact, file = stored_artifact(self._site.storage, build, id)
        head = file.read(0, _TEXT_BYTES)
        image = image_type(artifact.path, head) if artifact.file_size <= _LARGEST_IMAGE else None
        self._site.pages.show(
            req,
            resp,
            "artifacts/artifact",
            build=build,
            artifact=artifact,
            job=job_in_build(self._site.storage, build, artifact.job_uuid),
            image=image,
            text=None if image else text_of(head),
            cut=artifact.file_size > _TEXT_BYTES,
        )

    def on_get_image(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, id: str
    ) -> None:
        """Return an image for the page."""
        build = self._site.access.build(req, org, pipeline, number)
        artifact, file = stored_artifact(self._site.storage, build, id)
        found = image_type(artifact.path, file.read(0, _TEXT_BYTES)) if artifact.file_size <= _LARGEST_IMAGE else None
        if found is None:
            raise ApiError("route_not_found", "this file is no image that pages show; download it")
        resp.content_type = found
        resp.cache_control = ["private", "no-cache"]
        resp.etag = artifact.sha256
        resp.set_headers({"Content-Security-Policy": _POLICY, "Cross-Origin-Resource-Policy": "same-origin"})
        resp.stream = SourceSlice(file, 0, artifact.file_size)
        resp.content_length = artifact.file_size
