"""Declarations of endpoints, made at their responders; the OpenAPI document is made from them.

The first line of a responder's docstring is the operation's summary, the rest its description; its tag is
the responder's module in ``api.resources``, or its package outside of it.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from api.openapi.router import Router


_METHODS = ("get", "put", "post", "delete", "patch")
_ALWAYS = ("malformed_request", "headers_too_large", "internal_error", "busy")
_AUTHORIZED = ("unauthorized", "rate_limited")
_BODY = ("malformed_json", "unsupported_media_type", "body_too_large", "invalid_body")

Responder = TypeVar("Responder", bound="Callable[..., None]")
Security = Literal["bearer", "optional", "log_token", "metrics", "public"]


@immutable
class Parameter:
    """A query parameter or header of a request; ``schema`` is JSON Schema that includes an example."""

    name: str
    description: str
    schema: Mapping[str, Any]
    location: Literal["query", "header"] = "query"
    required: bool = False


@immutable
class Answer:
    """One success response.

    Without a ``model`` the body is of the ``media_type``; without either it is empty.
    """

    status: int
    description: str
    model: type[BaseModel] | None = None
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@immutable
class Operation:
    """One endpoint and method. ``errors`` are codes of the catalog, except those that any request may get.

    ``security`` is ``bearer`` if a bearer token is required; ``optional`` if public records can be read without one;
    ``log_token`` if a bearer token or a log token is required; ``metrics`` if the configured token is required, except
    on this host; ``public`` if no token is required. If ``counted``, a request without a token uses up the rate limit
    of its address. If it ``changes`` something, the audit has it. ``tag`` is its part of the document, by default the
    module.
    """

    id: str
    answers: tuple[Answer, ...]
    errors: tuple[str, ...]
    body: type[BaseModel] | None
    body_required: bool
    parameters: tuple[Parameter, ...]
    security: Security
    counted: bool
    changes: bool
    tag: str = ""

    @property
    def every_error(self) -> tuple[str, ...]:
        """The codes of all errors that a caller may get here."""
        authorized = () if self.security == "public" else _AUTHORIZED
        scoped = ("token_scope",) if self.security in {"bearer", "optional", "log_token"} else ()
        limited = ("rate_limited",) if self.counted else ()
        body = () if self.body is None else _BODY
        return tuple(dict.fromkeys((*authorized, *scoped, *limited, *body, *self.errors, *_ALWAYS)))


def operation(
    id: str,
    *answers: Answer,
    errors: tuple[str, ...] = (),
    body: type[BaseModel] | None = None,
    body_required: bool = True,
    parameters: tuple[Parameter, ...] = (),
    security: Security = "bearer",
    counted: bool = True,
    changes: bool = True,
    tag: str = "",
) -> Callable[[Responder], Responder]:
    """Declare what a responder takes and returns."""
    declared = Operation(id, answers, errors, body, body_required, parameters, security, counted, changes, tag)

    def declare(responder: Responder) -> Responder:
        responder.operation = declared  # type: ignore[attr-defined] # functions take attributes
        return responder

    return declare


def performs(operation_id: str) -> Callable[[Responder], Responder]:
    """Declare the operation that a page's form performs: to audit and limits it is that one."""

    def declare(responder: Responder) -> Responder:
        responder.performs = operation_id  # type: ignore[attr-defined] # functions take attributes
        return responder

    return declare


def of_owner(responder: Responder) -> Responder:
    """Declare a form of the host's owner: the owner's door performs an operation, and writes the audit."""
    responder.of_owner = True  # type: ignore[attr-defined] # functions take attributes
    return responder


@immutable
class Endpoint:
    """A documented function, its declaration, its path, and its method in lower case."""

    path: str
    method: str
    function: Callable[..., object]
    operation: Operation


class Routes:
    """Every path of the API with the resource that answers it, in the order of the document."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, object, str | None]] = []
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        self._by_id: dict[str, Endpoint] = {}
        self._performed: dict[tuple[str, str], str] = {}

    def add(self, path: str, resource: object, suffix: str | None = None) -> None:
        """Route ``path`` to ``resource``: to its responders that end in ``suffix``, if one is given.

        Raises:
            TypeError: A responder has no `operation`.
        """
        for method, responder in _responders(resource, suffix).items():
            declared = getattr(responder, "operation", None)
            if not isinstance(declared, Operation):
                raise TypeError(f"{responder.__qualname__} needs @operation: without, it is not documented or audited")
            self._declare(Endpoint(path, method, responder, declared))
        self._routes.append((path, resource, suffix))

    def add_operations(self, path: str, resource: object, *endpoints: Endpoint) -> None:
        """Route ``path`` to a resource that makes its responders when one is asked for."""
        for endpoint in endpoints:
            self._declare(endpoint)
        self._routes.append((path, resource, None))

    def _declare(self, endpoint: Endpoint) -> None:
        self._endpoints[endpoint.path, endpoint.method] = self._by_id[endpoint.operation.id] = endpoint

    def add_page(self, path: str, resource: object, suffix: str | None = None) -> None:
        """Route ``path`` to a page, its form or its parts, which are not in the document.

        Raises:
            TypeError: A responder to another method than GET does not say what it `performs`, or that it is `of_owner`.
        """
        for method, responder in _responders(resource, suffix).items():
            performed = getattr(responder, "performs", None)
            if isinstance(performed, str):
                self._performed[path, method] = performed
            elif method != "get" and not getattr(responder, "of_owner", False):
                raise TypeError(f"{responder.__qualname__} needs @performs, or @operation and Routes.add")
        self._routes.append((path, resource, suffix))

    def router(self, pages: Callable[[], Router] | None = None) -> Router:
        """Return a router to what was added since the last one; ``pages`` makes the one to what is added then.

        Raises:
            TypeError: A form performs an operation that there is not.
        """
        for (path, _), performed in self._performed.items():
            if performed not in self._by_id:
                raise TypeError(f"{path} performs {performed}, which is no operation")
        from api.openapi.router import Router  # noqa: PLC0415 - falcon, which commands do without

        router = Router(pages)
        for path, resource, suffix in self._routes:
            router.add_route(path, resource, **({"suffix": suffix} if suffix else {}))
        self._routes.clear()
        return router

    def endpoint(self, path: str, method: str) -> Endpoint | None:
        """Return the endpoint of a path and a method, or the one that a form performs; None for pages."""
        key = path, method.lower()
        performed = self._performed.get(key)
        return self._endpoints.get(key) if performed is None else self._by_id[performed]

    def is_page(self, path: str, method: str) -> bool:
        """Tell whether a path and a method are those of a page's form."""
        return (path, method.lower()) in self._performed

    def operation(self, path: str, method: str) -> Operation | None:
        """Return the declaration of a path's responder to a method; None if there is none."""
        endpoint = self.endpoint(path, method)
        return None if endpoint is None else endpoint.operation

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All endpoints of the document."""
        return tuple(self._endpoints.values())


def _responders(resource: object, suffix: str | None) -> Mapping[str, Callable[..., None]]:
    """Return a resource's responders by method.

    Raises:
        TypeError: It has none.
    """
    ending = f"_{suffix}" if suffix else ""
    found = {method: getattr(resource, f"on_{method}{ending}", None) for method in _METHODS}
    responders = {method: responder for method, responder in found.items() if responder is not None}
    if not responders:
        raise TypeError(f"{type(resource).__name__} has no responder like on_get{ending}")
    return responders
