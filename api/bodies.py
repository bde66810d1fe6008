"""JSON request bodies, read and checked, and JSON responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import falcon
import pydantic_core
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from api.errors.responses import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "answer",
    "body_bytes",
    "check_body",
    "json_path",
    "parse_json",
    "read_body",
    "read_json",
    "read_optional_body",
]

_Body = TypeVar("_Body", bound=BaseModel)

_MAX_VALUES = 2_000_000

_KEY = "[key]"
"""The last part of a location in pydantic's errors if the fault is in an object's key, not its value."""

_EXPECTED = {
    "missing": "expected a value, the field is required",
    "string_type": "expected a string",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} characters",
    "string_pattern_mismatch": "expected a string that matches {pattern}",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "list_type": "expected an array",
    "literal_error": "expected {expected}",
    "value_error": "{error}",
}


def body_bytes(req: falcon.Request) -> bytes:
    """Return the body of a JSON request. Raises ApiError ``unsupported_media_type`` for another type."""
    media_type, options = falcon.parse_header(req.content_type or falcon.MEDIA_JSON)
    if media_type.lower() != falcon.MEDIA_JSON or options.get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
        raise ApiError("unsupported_media_type", "Content-Type: expected application/json in UTF-8")
    return req.bounded_stream.read()


def parse_json(body: bytes) -> object:
    """Parse a body without checking it. Raises ApiError ``malformed_json`` or ``body_too_large``.

    The number of values is limited, because millions of empty lists are few bytes but take gigabytes and seconds to
    parse. Characters within strings are counted too: a pipeline of the largest size has far fewer.
    """
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MAX_VALUES:
        raise ApiError("body_too_large", f"the body has more than {_MAX_VALUES} values")
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ApiError("malformed_json", f"the body is not valid JSON: {error}") from None


def read_json(req: falcon.Request) -> object:
    """Return a request's body, parsed but not checked. Raises as `body_bytes` and `parse_json` do."""
    return parse_json(body_bytes(req))


def check_body(document: object, model: type[_Body]) -> _Body:
    """Return the parsed body as the model. Raises ApiError ``invalid_body`` for its first fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ApiError("invalid_body", f"{json_path(fault['loc'])}: {_expected(fault)}") from None


def read_body(req: falcon.Request, model: type[_Body]) -> _Body:
    """Read and check a request's body. Raises as `read_json` and `check_body` do."""
    return check_body(read_json(req), model)


def read_optional_body(req: falcon.Request, model: type[_Body]) -> _Body:
    """Read and check a body as `read_body` does; an absent body counts as an empty object."""
    return read_body(req, model) if req.content_length else check_body({}, model)


def answer(resp: falcon.Response, record: BaseModel, status: int = 200) -> None:
    """Respond with a record as JSON."""
    resp.context.record = record
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = record.model_dump_json().encode()


def json_path(location: Sequence[int | str]) -> str:
    """Return a location in a document: ``env.PATH``, ``items[3].name``, or ``$`` for the document itself."""
    named = location[:-1] if location and location[-1] == _KEY else location
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in named)
    return path.removeprefix(".") or "$"


def _expected(fault: ErrorDetails) -> str:
    sentence = _EXPECTED.get(fault["type"])
    return fault["msg"] if sentence is None else sentence.format_map(fault.get("ctx", {}))
