"""Downloads: answers of bytes, whole or by range (RFC 9110, section 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from api.errors.catalog import ApiError
from api.http.files import SourceSlice, parse_range
from api.openapi.operations import Answer, Parameter

if TYPE_CHECKING:
    import falcon

    from api.operations.operation import Download

_BINARY = "application/octet-stream"
_HEADERS = {
    "ETag": "The SHA-256 of the whole file, in quotes.",
    "Content-Disposition": "`attachment`, with the file's name.",
}
_OF_PART = {"Content-Range": "The position of these bytes and the full size."}

DOWNLOAD_ERRORS = ("range_not_satisfiable",)
RANGE_PARAMETERS = (
    Parameter(
        "Range",
        "One range of bytes; several are ignored.",
        {"type": "string", "examples": ["bytes=0-65535"]},
        "header",
    ),
)


def download_answers(description: str) -> tuple[Answer, Answer]:
    """Return the answers of a download, as the document has them."""
    return (
        Answer(200, description, media_type=_BINARY, headers=_HEADERS),
        Answer(206, "The range.", media_type=_BINARY, headers=_HEADERS | _OF_PART),
    )


def answer_download(req: falcon.Request, resp: falcon.Response, download: Download) -> None:
    """Respond with the requested range of a file, or all of it. Raises ApiError ``range_not_satisfiable``."""
    wanted = parse_range(req.get_header("Range"))
    bounds = (0, download.size) if wanted is None else wanted.within(download.size)
    if bounds is None:
        raise ApiError(
            "range_not_satisfiable",
            f"the file has {download.size} bytes, none of them in the requested range",
            headers={"Content-Range": f"bytes */{download.size}"},
        )
    start, end = bounds
    resp.status = 200 if wanted is None else 206
    resp.content_type = _BINARY
    resp.cache_control = ["private", "no-cache"]
    resp.etag = download.sha256
    resp.set_headers({"Accept-Ranges": "bytes", "Content-Disposition": _attachment(download.name)})
    if wanted is not None:
        resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{download.size}")
    resp.stream = SourceSlice(download.file, start, end)
    resp.content_length = end - start


def _attachment(filename: str) -> str:
    """Return the ``Content-Disposition`` to save a file under its name, in ASCII and in UTF-8 (RFC 6266)."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
