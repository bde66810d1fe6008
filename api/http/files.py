"""Files and ranges of them as answers, and the files of pages."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
from importlib import resources
from typing import TYPE_CHECKING, Protocol

from api.errors.catalog import ApiError
from api.openapi.operations import Answer
from storage import immutable, pattern

if TYPE_CHECKING:
    from pathlib import Path

    import falcon

_NUMBER = "([0-9]{1,1000})"
_ONE_RANGE = pattern(
    rf"bytes=[ \t]*(?:{_NUMBER}-{_NUMBER}?|-{_NUMBER})[ \t]*",
    re.ASCII | re.IGNORECASE,
)
_HOUR = 3600
_EXCLUDED = pattern(r"q=0(\.0*)?")


class ByteSource(Protocol):
    """Bytes that can be read from any offset."""

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``; fewer at the end."""
        ...


class StoredFile:
    """A file on the disk as a source. It is open only during a read, however slow the client is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int | None:
        """Return the size in bytes; None if the file does not exist."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``. Raises FileNotFoundError."""
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)


class SourceSlice(io.RawIOBase):
    """Bytes ``start`` to ``end`` (exclusive) of a source as a file. Never holds them all in memory."""

    def __init__(self, source: ByteSource, start: int, end: int) -> None:
        super().__init__()
        self._source = source
        self._start = start
        self._size = end - start
        self._position = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position, from 0."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or all that are left if they are fewer or ``size`` is negative.

        Raises OSError if the source has become shorter.
        """
        left = self._size - self._position
        size = left if size < 0 else min(size, left)
        data = self._source.read(self._start + self._position, size)
        if len(data) < size:
            raise OSError("the file became shorter while it was sent")
        self._position += size
        return data


# Considered: falcon's `Request.range` refuses several ranges with 400, although a server may ignore them. WebOb's
# `Range` takes the first of several, and the last 0 bytes for the whole. Werkzeug's `range_for_length` returns None
# both for ranges to ignore (200) and for one beyond the end (416).


@immutable
class ByteRange:
    """One requested range: ``first`` to ``last`` (inclusive) or the end, or the last ``suffix`` bytes."""

    first: int = 0
    last: int | None = None
    suffix: int | None = None

    def within(self, size: int) -> tuple[int, int] | None:
        """Return the range of ``size`` bytes as start and end (exclusive); None if it has none of them."""
        if self.suffix is not None:
            return (max(0, size - self.suffix), size) if size and self.suffix else None
        if self.first >= size:
            return None
        return self.first, size if self.last is None else min(self.last + 1, size)


def parse_range(header: str | None) -> ByteRange | None:
    """Parse a ``Range`` header; None if it is absent, malformed, not in bytes, or of several ranges."""
    match = _ONE_RANGE.fullmatch(header or "")
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return ByteRange(suffix=int(suffix))
    if last is not None and int(last) < int(first):
        return None
    return ByteRange(int(first), None if last is None else int(last))


ETAG = {"ETag": "Changes with the body."}
NOT_MODIFIED = Answer(304, "`If-None-Match` has the current `ETag`.")


def answer_unless_known(req: falcon.Request, resp: falcon.Response, body: bytes, content_type: str) -> None:
    """Respond with a body and its ETag, or with 304 if the client sent that ETag in ``If-None-Match``."""
    tag = hashlib.sha256(body).hexdigest()[:32]
    resp.etag = tag
    known = req.if_none_match or []
    if "*" in known or tag in known:
        resp.status = 304
    else:
        resp.content_type = content_type
        resp.data = body


CSS = "text/css; charset=utf-8"
JAVASCRIPT = "text/javascript; charset=utf-8"
SVG = "image/svg+xml"


@immutable
class StaticFile:
    """A file in a package's folder ``static``; a ``gzipped`` one has ``.gz`` after its name there."""

    name: str
    media_type: str
    gzipped: bool = False


class StaticFilesResource:
    """The static files of one package; not part of the OpenAPI document."""

    def __init__(self, package: str, *files: StaticFile, folder: str = "static") -> None:
        self._folder = resources.files(package).joinpath(folder)
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
        stored = self._folder.joinpath(file.name + (".gz" if file.gzipped else "")).read_bytes()
        return gzip.decompress(stored) if file.gzipped and not gzipped else stored


def _accepts_gzip(accepted: str) -> bool:
    """Tell whether an Accept-Encoding header allows gzip (RFC 9110, section 12.5.3)."""
    named = dict(each.replace(" ", "").lower().partition(";")[::2] for each in accepted.split(","))
    return _EXCLUDED.fullmatch(named.get("gzip", named.get("*", "q=0"))) is None
