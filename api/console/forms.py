"""The fields of a form as browsers send them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import falcon

from api.errors.catalog import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_MOST_BYTES = 64 * 1024
_MOST_FIELDS = 50


def read_form(req: falcon.Request) -> Mapping[str, str]:
    """Return a form's fields.

    Raises ApiError ``unsupported_media_type``, ``body_too_large`` or ``malformed_request``.
    """
    media_type, _ = falcon.parse_header(req.content_type or "")
    if media_type.lower() != falcon.MEDIA_URLENCODED:
        raise ApiError("unsupported_media_type", "Content-Type: expected application/x-www-form-urlencoded")
    body = req.bounded_stream.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise ApiError("body_too_large", f"the form has more than {_MOST_BYTES} bytes")
    try:
        return dict(
            parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
        )
    except ValueError as error:
        raise ApiError("malformed_request", f"the form cannot be read: {error}") from None


def local_path(text: str) -> str:
    """Return a page's path without its first slash; the path of home if it is no page of this service.

    What is left may hold anything that a path and a query may, because links put the path to the root before it.
    """
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or "\\" in text or " " in text:
        return ""
    return text.lstrip("/")
