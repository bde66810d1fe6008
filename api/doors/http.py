"""The door of HTTP: from a request to an operation, and from its result to a response.

Answers of bytes are downloads, whole or by range (RFC 9110, section 14).
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from api.bodies import answer, read_json
from api.errors.catalog import ApiError
from api.http.files import SourceSlice, parse_range
from api.middleware.idempotency import KEY_PARAMETERS, read_submission
from api.models import body_model_of, list_model_of, model_of
from api.openapi.operations import Answer, Endpoint, Parameter
from api.openapi.operations import Operation as Declared
from api.operations.operation import Call, Download, Operation, Query, Span, never
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from api.sign_in.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    import falcon

    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.openapi.operations import Routes
    from api.operations.service import Service
    from api.paging import Pager
    from storage import Caller, Page

    _Path = tuple[str, tuple[Operation[Any], ...], tuple[Endpoint, ...]]

R = TypeVar("R")

_BINARY = "application/octet-stream"
_HEADERS = {
    "Repr-Digest": "The SHA-256 of the whole file in Base64: `sha-256=:…:` (RFC 9530).",
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


class HttpDoor:
    """Performs operations for the callers that ``access`` knows. Safe in any thread."""

    def __init__(self, service: Service, access: Access, pager: Pager, limits: RateLimits) -> None:
        self._service = service
        self._access = access
        self._pager = pager
        self._limits = limits

    def add(self, routes: Routes, *nouns: ModuleType) -> None:
        """Route the operations of modules but those of the owner of the host, path by path in order."""
        for path, operations, endpoints in _paths_of(nouns):
            routes.add_operations(path, self.resource(*operations), *endpoints)

    def resource(self, *operations: Operation[Any]) -> object:
        """Return the resource of one path, which has a responder for each operation.

        Raises TypeError for one of the owner of the host.
        """
        if owners := [each.id for each in operations if each.callers.owners]:
            raise TypeError(f"{owners[0]} is the owner's alone: HTTP leads to no such operation")
        return _Resource(self._responder, operations)

    def perform(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        operation: Operation[R],
        names: Mapping[str, str],
        document: Callable[[], object],
        span: Callable[[str], Span] | None = None,
    ) -> R:
        """Perform an operation for the caller of a request. Raises ApiError."""
        if operation.callers.limited:
            self._limits.limit_address(req, resp)
        caller = self._caller(req, operation)
        if operation.callers.limited and caller is not None:
            self._limits.limit_account(caller, resp)
        query = Query({each.name: req.get_param(each.name) or "" for each in operation.parameters})
        call = call_of(req, resp, self._service, self._limits, caller)
        return operation.perform(call, names, document, span, query)

    def _caller(self, req: falcon.Request, operation: Operation[Any]) -> Caller | None:
        if operation.callers.security in {"public", "own token"}:
            return None
        if operation.callers.session:
            return self._access.session(req)
        return self._access.caller(req) if operation.callers.security == "bearer" else self._access.optional_caller(req)

    def _responder(self, operation: Operation[Any]) -> Callable[..., None]:
        def respond(req: falcon.Request, resp: falcon.Response, **names: str) -> None:
            if operation.lists and operation.whole is None:
                self._answer_page(req, resp, operation, names)
                return
            result = self.perform(req, resp, operation, names, partial(_sent, req, operation))
            if operation.success.once:
                resp.cache_control = ["no-store"]
            if operation.record is None:
                resp.status = operation.success.status
            elif isinstance(result, Download):
                answer_download(req, resp, result)
            elif operation.whole is not None:
                shown = model_of(operation.record).showing
                rows = {operation.whole.key: [shown(each) for each in result]}
                answer(resp, list_model_of(operation.record, operation.whole)(**rows))
            else:
                answer(resp, model_of(operation.record).showing(result), status=operation.success.status)

        return respond

    def _answer_page(
        self, req: falcon.Request, resp: falcon.Response, operation: Operation[Any], names: Mapping[str, str]
    ) -> None:
        scope = ""

        def span(ids: str) -> Span:
            # A list whose path names nothing is the caller's, and so are its cursors.
            nonlocal scope
            scope = f"{operation.id} {ids or self._access.caller(req).user.uuid}"
            return Span(*self._pager.asked(req, scope))

        page: Page[Any] = self.perform(req, resp, operation, names, dict, span)
        self._pager.respond(resp, scope, page, model_of(operation.record).showing)


def _sent(req: falcon.Request, operation: Operation[Any]) -> object:
    """Return the parsed body of a request, or the submission of one. Raises ApiError."""
    if operation.submits:
        return read_submission(req, operation.body, required=operation.body_required)
    return {} if not operation.body_required and not req.content_length else read_json(req)


@cache
def _paths_of(nouns: tuple[ModuleType, ...]) -> tuple[_Path, ...]:
    """Return the paths of modules in order, without the owner's operations: one result for all apps."""
    by_path: dict[str, list[Operation[Any]]] = {}
    for each in chain.from_iterable(map(operations_of, nouns)):
        if not each.callers.owners:
            by_path.setdefault(each.path, []).append(each)

    def endpoint(each: Operation[Any]) -> Endpoint:
        return Endpoint(each.path, each.method.lower(), each.function, _declared(each))

    return tuple((path, tuple(there), tuple(map(endpoint, there))) for path, there in by_path.items())


def operations_of(noun: ModuleType) -> Iterator[Operation[Any]]:
    """Yield the operations that a module declares, in their order."""
    for each in vars(noun).values():
        if isinstance(each, Operation) and each.function.__module__ == noun.__name__:
            yield each


def call_of(
    req: falcon.Request, resp: falcon.Response, service: Service, limits: RateLimits, caller: Caller | None
) -> Call:
    """Return the call of a request."""
    gone = req.env.get("waitress.client_disconnected", never)
    own = req.context.get("own_entry")
    visitor = Visitor(req, resp, service.storage, limits)
    return Call(service, caller, gone, visitor, None if own is None else own(req, resp))


class _Resource:
    """The responders of one path, each made when a request first asks for the path."""

    def __init__(
        self, make: Callable[[Operation[Any]], Callable[..., None]], operations: tuple[Operation[Any], ...]
    ) -> None:
        self._make = make
        self._operations = {f"on_{each.method.lower()}": each for each in operations}

    def __getattr__(self, name: str) -> Callable[..., None]:
        try:
            return self._make(self._operations[name])
        except KeyError:
            raise AttributeError(name) from None


@cache
def _declared(operation: Operation[Any]) -> Declared:
    """Return what the document, the audit and the limits have of an operation: one for all apps."""
    answers, errors, parameters = _answers(operation)
    body = None if operation.body is None else body_model_of(operation.body)
    must_have = body is not None and any(field.is_required() for field in body.model_fields.values())
    return Declared(
        operation.id,
        answers,
        errors=(*operation.errors, *errors),
        body=body,
        body_required=operation.body_required or must_have,
        parameters=(*operation.parameters, *parameters, *(KEY_PARAMETERS if operation.submits else ())),
        security="bearer" if operation.callers.security == "own token" else operation.callers.security,
        counted=operation.callers.security != "public" or not operation.callers.limited,
        changes=operation.changes,
        tag=operation.tag,
    )


def _answers(operation: Operation[Any]) -> tuple[tuple[Answer, ...], tuple[str, ...], tuple[Parameter, ...]]:
    """Return the answers of an operation, and the errors and parameters that such answers bring."""
    if operation.record is Download:
        return download_answers(operation.success.about), DOWNLOAD_ERRORS, RANGE_PARAMETERS
    model: Any = None if operation.record is None else model_of(operation.record)
    if operation.whole is not None:
        model = list_model_of(operation.record, operation.whole)
    elif operation.lists:
        page = Answer(operation.success.status, operation.success.about, PageRecord[model])
        return (page,), PAGE_ERRORS, PAGE_PARAMETERS
    return (Answer(operation.success.status, operation.success.about, model),), (), ()


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
    digest = b64encode(bytes.fromhex(download.sha256)).decode()
    resp.set_headers(
        {
            "Accept-Ranges": "bytes",
            "Content-Disposition": _attachment(download.name),
            "Repr-Digest": f"sha-256=:{digest}:",
        }
    )
    if wanted is not None:
        resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{download.size}")
    resp.stream = SourceSlice(download.file, start, end)
    resp.content_length = end - start


def _attachment(filename: str) -> str:
    """Return the ``Content-Disposition`` to save a file under its name, in ASCII and in UTF-8 (RFC 6266)."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
