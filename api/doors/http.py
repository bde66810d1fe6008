"""The door of HTTP: from a request to an operation, and from its result to a response."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from api.bodies import answer, read_json
from api.doors.downloads import DOWNLOAD_ERRORS, RANGE_PARAMETERS, answer_download, download_answers
from api.fields import body_model_of, list_model_of, model_of
from api.middleware.idempotency import KEY_PARAMETERS, read_submission
from api.openapi.operations import Answer
from api.openapi.operations import operation as documented
from api.operations.operation import Call, Download, Operation, Query, Span, never
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import falcon

    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.openapi.operations import Parameter, Routes
    from api.operations.operation import Service
    from api.paging import Pager
    from storage import Caller, Page

R = TypeVar("R")


class HttpDoor:
    """Performs operations for the callers that ``access`` knows. Safe in any thread."""

    def __init__(self, service: Service, access: Access, pager: Pager, limits: RateLimits) -> None:
        self._service = service
        self._access = access
        self._pager = pager
        self._limits = limits

    def add(self, routes: Routes, *operations: Operation[Any]) -> None:
        """Route operations, path by path in their order. Raises TypeError for one of the owner of the host."""
        by_path: dict[str, list[Operation[Any]]] = {}
        for each in operations:
            if each.owners:
                raise TypeError(f"{each.id} is the owner's alone: HTTP leads to no such operation")
            by_path.setdefault(each.path, []).append(each)
        for path, there in by_path.items():
            routes.add(path, self.resource(*there))

    def resource(self, *operations: Operation[Any]) -> object:
        """Return the resource of one path, which has a responder for each operation."""
        return SimpleNamespace(**{f"on_{each.method.lower()}": self._responder(each) for each in operations})

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
        if operation.limited:
            self._limits.limit_address(req, resp)
        caller = self._caller(req, operation)
        if operation.limited and caller is not None:
            self._limits.limit_account(caller, resp)
        query = Query({each.name: req.get_param(each.name) or "" for each in operation.parameters})
        return operation.perform(call_of(req, self._service, caller), names, document, span, query)

    def _caller(self, req: falcon.Request, operation: Operation[Any]) -> Caller | None:
        if operation.session:
            return self._access.session(req)
        return self._access.caller(req) if operation.security == "bearer" else self._access.optional_caller(req)

    def _responder(self, operation: Operation[Any]) -> Callable[..., None]:
        def respond(req: falcon.Request, resp: falcon.Response, **names: str) -> None:
            if operation.lists and operation.whole is None:
                self._answer_page(req, resp, operation, names)
                return
            result = self.perform(req, resp, operation, names, partial(_sent, req, operation))
            if operation.once:
                resp.cache_control = ["no-store"]
            if operation.record is None:
                resp.status = operation.status
            elif isinstance(result, Download):
                answer_download(req, resp, result)
            elif operation.whole is not None:
                shown = model_of(operation.record).showing
                rows = {operation.whole.key: [shown(each) for each in result]}
                answer(resp, list_model_of(operation.record, operation.whole)(**rows))
            else:
                answer(resp, model_of(operation.record).showing(result), status=operation.status)

        function = operation.function
        respond.__name__, respond.__qualname__ = function.__name__, function.__qualname__
        respond.__module__, respond.__doc__ = function.__module__, function.__doc__
        return _described(operation)(respond)

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
    return read_json(req)


def call_of(req: falcon.Request, service: Service, caller: Caller | None) -> Call:
    """Return the call of a request."""
    return Call(service, caller, req.env.get("waitress.client_disconnected", never))


def _described(operation: Operation[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the declaration of an operation as the document, the audit and the limits have it."""
    answers, errors, parameters = _answers(operation)
    return documented(
        operation.id,
        *answers,
        errors=(*operation.errors, *errors),
        body=None if operation.body is None else body_model_of(operation.body),
        body_required=operation.body_required,
        parameters=(*operation.parameters, *parameters, *(KEY_PARAMETERS if operation.submits else ())),
        security=operation.security,
        changes=operation.changes,
        tag=operation.tag,
    )


def _answers(operation: Operation[Any]) -> tuple[tuple[Answer, ...], tuple[str, ...], tuple[Parameter, ...]]:
    """Return the answers of an operation, and the errors and parameters that such answers bring."""
    if operation.record is Download:
        return download_answers(operation.answer), DOWNLOAD_ERRORS, RANGE_PARAMETERS
    model: Any = None if operation.record is None else model_of(operation.record)
    if operation.whole is not None:
        model = list_model_of(operation.record, operation.whole)
    elif operation.lists:
        page = Answer(operation.status, operation.answer, PageRecord[model])
        return (page,), PAGE_ERRORS, PAGE_PARAMETERS
    return (Answer(operation.status, operation.answer, model),), (), ()
