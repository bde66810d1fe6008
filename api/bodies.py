"""JSON of requests, read within its bounds, and of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon
import pydantic_core

from api.errors.catalog import ApiError

if TYPE_CHECKING:
    from pydantic import BaseModel

_MAX_VALUES = 2_000_000


def body_bytes(req: falcon.Request) -> bytes:
    """Return the body of a JSON request. Raises ApiError ``unsupported_media_type`` for another type."""
    media_type, options = falcon.parse_header(req.content_type or falcon.MEDIA_JSON)
    if media_type.lower() != falcon.MEDIA_JSON or options.get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
        raise ApiError("unsupported_media_type", "Content-Type: expected application/json in UTF-8")
    return req.bounded_stream.read()


def check_values(body: bytes) -> None:
    """Raise ApiError ``body_too_large`` for JSON of very many values.

    Millions of empty lists are few bytes but take gigabytes and seconds to parse. Characters within strings are
    counted too: a pipeline of the largest size has far fewer.
    """
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MAX_VALUES:
        raise ApiError("body_too_large", f"the body has more than {_MAX_VALUES} values")


def parse_json(body: bytes) -> object:
    """Parse a body without checking it. Raises ApiError ``malformed_json`` or ``body_too_large``."""
    check_values(body)
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ApiError("malformed_json", f"the body is not valid JSON: {error}") from None


def read_json(req: falcon.Request) -> object:
    """Return a request's body, parsed but not checked. Raises as `body_bytes` and `parse_json` do."""
    return parse_json(body_bytes(req))


def answer(resp: falcon.Response, record: BaseModel, status: int = 200) -> None:
    """Respond with a record as JSON."""
    resp.context.record = record
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = record.model_dump_json().encode()
