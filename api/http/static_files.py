"""Style sheets and scripts of pages, served from packages of this service."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from storage import immutable

if TYPE_CHECKING:
    import falcon

CSS = "text/css; charset=utf-8"
JAVASCRIPT = "text/javascript; charset=utf-8"
SVG = "image/svg+xml"

_HOUR = 3600
_EXCLUDED = re.compile(r"q=0(\.0*)?")


@immutable
class StaticFile:
    """A file in a package's folder ``static``; a ``gzipped`` one has ``.gz`` after its name there."""

    name: str
    media_type: str
    gzipped: bool = False


class StaticFilesResource:
    """The static files of one package; not part of the OpenAPI document."""

    def __init__(self, package: str, *files: StaticFile) -> None:
        self._package = package
        self._files = {file.name: file for file in files}

    def on_get(self, req: falcon.Request, resp: falcon.Response, file: str) -> None:
        """Get a style sheet or a script."""
        found = self._files.get(file)
        if found is None:
            raise ApiError("route_not_found", "there is no such file")
        gzipped = found.gzipped and _accepts_gzip(req.get_header("Accept-Encoding") or "")
        content = self._content(found, gzipped=gzipped)
        if found.gzipped:
            resp.append_header("Vary", "Accept-Encoding")
        resp.cache_control = [f"max-age={_HOUR}"]
        tag = hashlib.sha256(content).hexdigest()[:32]
        resp.etag = tag
        if req.if_none_match and tag in req.if_none_match:
            resp.status = 304
            return
        resp.content_type = found.media_type
        if gzipped:
            resp.set_header("Content-Encoding", "gzip")
        resp.data = content

    def _content(self, file: StaticFile, *, gzipped: bool) -> bytes:
        folder = resources.files(self._package).joinpath("static")
        stored = folder.joinpath(file.name + (".gz" if file.gzipped else "")).read_bytes()
        return gzip.decompress(stored) if file.gzipped and not gzipped else stored


def _accepts_gzip(accepted: str) -> bool:
    """Tell whether an Accept-Encoding header allows gzip (RFC 9110, section 12.5.3)."""
    named = dict(each.replace(" ", "").lower().partition(";")[::2] for each in accepted.split(","))
    return _EXCLUDED.fullmatch(named.get("gzip", named.get("*", "q=0"))) is None
