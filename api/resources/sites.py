"""Folders of HTML among artifacts, as browsers show them: pages that cannot act for readers.

Such pages are of a stranger. The policy ``sandbox`` without ``allow-same-origin`` gives each of them an origin that is
no other page's: its scripts run, but see neither cookies nor pages of the service, and requests that they send to it
have no session. So a token in the path opens the files of one job, and nothing else, for an hour.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from api.doors.http import answer_download
from api.errors.catalog import ApiError
from api.operations.artifacts import file_of
from api.operations.operation import Download

if TYPE_CHECKING:
    import falcon

    from api.http.files import StoredFile
    from api.operations.service import Service
    from storage import Artifact

_POLICY = "sandbox allow-scripts allow-popups"
_LIFETIME = timedelta(hours=1)
_PURPOSE = "site"
_INDEX = "index.html"
_UTF8 = "; charset=utf-8"
_TYPES = {
    "html": f"text/html{_UTF8}",
    "htm": f"text/html{_UTF8}",
    "css": f"text/css{_UTF8}",
    "js": f"text/javascript{_UTF8}",
    "mjs": f"text/javascript{_UTF8}",
    "json": "application/json",
    "map": "application/json",
    "txt": f"text/plain{_UTF8}",
    "xml": "application/xml",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "wasm": "application/wasm",
}
"""The types that are shown, by the end of a name; every other file is saved."""


def is_page(path: str) -> bool:
    """Tell whether a file is one to look at as a page."""
    return path.lower().endswith((".html", ".htm"))


class SiteResource:
    """``/sites/of/{token}/{path}``."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def link(self, artifact: Artifact) -> str:
        """Return the address at which an artifact, and others of its job, can be looked at for an hour."""
        expires_at = int((self._service.clock.now() + _LIFETIME).timestamp())
        serving = self._service.serving
        if serving is None:
            raise TypeError("only the service itself does this")
        token = serving.signer.sign(_PURPOSE, [artifact.build_uuid, artifact.job_uuid, expires_at])
        return f"{self._service.url}/sites/of/{token}/{quote(artifact.path)}"

    def on_get_of(self, req: falcon.Request, resp: falcon.Response, token: str, path: str) -> None:
        """Show a file of the job that a token is for."""
        storage, serving = self._service.storage, self._service.serving
        opened = None if serving is None else serving.signer.open(_PURPOSE, token)
        if opened is None or self._service.clock.now().timestamp() >= opened[2]:
            raise ApiError(
                "route_not_found", "this address has expired: open the file from the page of its build again"
            )
        build = storage.builds.by_uuid(opened[0])
        of_job = [] if build is None else storage.artifacts.at(build.id, path)
        index = [] if build is None or of_job else storage.artifacts.at(build.id, _index_of(path))
        if found := [each for each in of_job if each.job_uuid == opened[1]]:
            _show(req, resp, found[0], file_of(storage, found[0]))
        elif any(each.job_uuid == opened[1] for each in index):
            self._lead(resp, f"/sites/of/{token}/{quote(_index_of(path))}")
        else:
            raise ApiError.not_found("artifact", path)

    def _lead(self, resp: falcon.Response, path: str) -> None:
        """Lead to the index of a folder by its own name, so that its links are relative to the folder."""
        resp.status = 302
        resp.location = f"{self._service.url}{path}"
        resp.cache_control = ["no-store"]


def _index_of(path: str) -> str:
    return f"{path}/{_INDEX}"


def _show(req: falcon.Request, resp: falcon.Response, artifact: Artifact, file: StoredFile) -> None:
    """Respond with a file, or a range of it, as a page that has no origin of the service."""
    resp.set_header("Content-Security-Policy", _POLICY)
    # Fonts and modules are asked for with the page's origin, which is none; no answer depends on who asks.
    resp.set_header("Access-Control-Allow-Origin", "*")
    if artifact.sha256 in (req.if_none_match or []):
        resp.status = 304
        resp.etag = artifact.sha256
        return
    answer_download(req, resp, Download(file, artifact.file_size, artifact.filename, artifact.sha256))
    shown = _TYPES.get(artifact.filename.rpartition(".")[2].lower())
    if shown is not None:
        resp.content_type = shown
        resp.set_header("Content-Disposition", "inline")
