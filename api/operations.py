"""Declarations of endpoints, made at their responders; the OpenAPI document is made from them.

The first line of a responder's docstring is the operation's summary, the rest its description; the responder's module
is the operation's tag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import falcon
    from pydantic import BaseModel

    from api.request import ApiRequest

__all__ = ["Answer", "Operation", "Parameter", "Routes", "operation", "operation_of"]

_METHODS = ("get", "put", "post", "delete", "patch")
_ALWAYS = ("malformed_request", "headers_too_large", "internal_error", "busy")
_AUTHORIZED = ("unauthorized", "rate_limited")
_BODY = ("malformed_json", "unsupported_media_type", "body_too_large", "invalid_body")

Responder = TypeVar("Responder", bound="Callable[..., None]")
Security = Literal["bearer", "optional", "log_token", "metrics", "public"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or header of a request; ``schema`` is JSON Schema that includes an example."""

    name: str
    description: str
    schema: Mapping[str, Any]
    place: Literal["query", "header"] = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """One success response.

    Without a ``model`` the body is of the ``media_type``; without either it is empty.
    """

    status: int
    description: str
    model: type[BaseModel] | None = None
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Operation:
    """One endpoint and method. ``errors`` are codes of the catalog, except those that any request may get.

    ``security`` is ``bearer`` if a bearer token is required; ``optional`` if public records can be read without one;
    ``log_token`` if, for logs, a log token will do too; ``metrics`` if the configured token is required, except on this
    host; ``public`` if no token is required.
    """

    id: str
    answers: tuple[Answer, ...]
    errors: tuple[str, ...]
    body: type[BaseModel] | None
    body_required: bool
    parameters: tuple[Parameter, ...]
    security: Security

    @property
    def every_error(self) -> tuple[str, ...]:
        """The codes of all errors that a caller may get here."""
        authorized = () if self.security == "public" else _AUTHORIZED
        body = () if self.body is None else _BODY
        return tuple(dict.fromkeys((*authorized, *body, *self.errors, *_ALWAYS)))


def operation(
    id: str,  # noqa: A002 - what OpenAPI calls it
    *answers: Answer,
    errors: tuple[str, ...] = (),
    body: type[BaseModel] | None = None,
    body_required: bool = True,
    parameters: tuple[Parameter, ...] = (),
    security: Security = "bearer",
) -> Callable[[Responder], Responder]:
    """Declare what a responder takes and returns."""
    said = Operation(id, answers, errors, body, body_required, parameters, security)

    def say(responder: Responder) -> Responder:
        responder.operation = said  # type: ignore[attr-defined] # functions take attributes
        return responder

    return say


def operation_of(responder: object) -> Operation | None:
    """Return a responder's declaration; None if it has none."""
    found = getattr(responder, "operation", None)
    return found if isinstance(found, Operation) else None


class Routes:
    """Every path of the API with the resource that answers it, in the order of the document."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, object, str | None]] = []

    def add(self, path: str, resource: object, suffix: str | None = None) -> None:
        """Route ``path`` to ``resource``: to its responders that end in ``suffix``, if one is given."""
        self._routes.append((path, resource, suffix))

    def install(self, app: falcon.App[ApiRequest, falcon.Response]) -> None:
        """Add every route to the app."""
        for path, resource, suffix in self._routes:
            app.add_route(path, resource, **({"suffix": suffix} if suffix else {}))

    def responders(self) -> Iterator[tuple[str, str, Callable[..., None]]]:
        """Yield path, method in lower case, and responder of each endpoint."""
        for path, resource, suffix in self._routes:
            for method in _METHODS:
                name = f"on_{method}_{suffix}" if suffix else f"on_{method}"
                if (responder := getattr(resource, name, None)) is not None:
                    yield path, method, responder
