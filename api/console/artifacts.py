"""The page of an artifact, its picture, and the tree of a build's artifacts."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from api.console.errors import Page
from api.errors.catalog import ApiError
from api.http.files import SourceSlice
from api.operations.artifacts import stored_artifact
from api.operations.things import job_in_build
from api.resources.sites import SiteResource, is_page
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import falcon

    from api.console.site import Site
    from storage import Artifact


_TEXT_BYTES = 128 * 2**10
_LARGEST_IMAGE = 20 * 2**20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SVG = "image/svg+xml"
_WEBP = slice(8, 12)
_DEEPEST = 16


class ArtifactPage(Page):
    """``…/builds/{number}/artifacts/{id}`` and ``…/{id}/image``, for members.

    The page shows images and the beginning of texts. Whatever a job wrote, no script of it runs: a text is escaped, and
    an image has a type of an image and a policy that allows nothing, which also holds where somebody opens it by its
    own address.
    """

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
            page=is_page(artifact.path),
            text=None if image else text_of(head),
            cut=artifact.file_size > _TEXT_BYTES,
        )

    def on_get_look(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, id: str
    ) -> None:
        """Lead to an address at which a page among the artifacts is shown."""
        build = self._site.access.build(req, org, pipeline, number)
        artifact, _ = stored_artifact(self._site.storage, build, id)
        resp.status = 303
        resp.location = SiteResource(self._site.service).link(artifact)
        resp.cache_control = ["no-store"]

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


def image_type(path: str, head: bytes) -> str | None:
    """Return the type of an image that browsers show; None for every other file.

    Only an SVG needs its name: its bytes are those of any text.
    """
    for magic, media_type in _IMAGES.items():
        if head.startswith(magic):
            return media_type
    if head.startswith(b"RIFF") and head[_WEBP] == b"WEBP":
        return "image/webp"
    return _SVG if path.lower().endswith(".svg") and b"<svg" in head else None


def text_of(head: bytes) -> str | None:
    """Return the beginning of a file as text, if it is UTF-8 without a zero byte.

    The last character may be cut.
    """
    if b"\0" in head:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return None


@immutable
class KeptFile:
    """An artifact with its name in its folder."""

    name: str
    artifact: Artifact


@immutable
class Folder:
    """A folder, or a job at the root. A folder that has nothing but a folder is one with it: ``a/b``."""

    name: str
    folders: tuple[Folder, ...]
    files: tuple[KeptFile, ...]

    @property
    def count(self) -> int:
        """The number of files below it."""
        return len(self.files) + sum(folder.count for folder in self.folders)

    @property
    def size(self) -> int:
        """The bytes of the files below it."""
        own = sum(file.artifact.file_size for file in self.files)
        return own + sum(folder.size for folder in self.folders)


def trees(artifacts: Iterable[Artifact], job_names: Mapping[str, str]) -> list[Folder]:
    """Return a folder for each job, in the order of its first artifact.

    What is deeper than 16 folders keeps the rest of its path as its name.
    """
    by_job: dict[str, list[tuple[tuple[str, ...], Artifact]]] = {}
    for artifact in artifacts:
        by_job.setdefault(artifact.job_uuid, []).append((_parts(artifact.path), artifact))
    return [_folder(job_names.get(uuid, ""), kept) for uuid, kept in by_job.items()]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/", _DEEPEST))


def _folder(name: str, kept: Iterable[tuple[tuple[str, ...], Artifact]]) -> Folder:
    files: list[KeptFile] = []
    below: dict[str, list[tuple[tuple[str, ...], Artifact]]] = {}
    for (first, *rest), artifact in kept:
        if rest:
            below.setdefault(first, []).append((tuple(rest), artifact))
        else:
            files.append(KeptFile(first, artifact))
    folders = (_joined(_folder(each, found)) for each, found in sorted(below.items()))
    return Folder(name, tuple(folders), tuple(sorted(files, key=lambda file: file.name)))


def _joined(folder: Folder) -> Folder:
    if folder.files or len(folder.folders) != 1:
        return folder
    (only,) = folder.folders
    return Folder(f"{folder.name}/{only.name}", only.folders, only.files)
