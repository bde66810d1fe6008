"""Error responses: one exception and one envelope for the failures of every layer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import falcon

from api.errors.catalog import ApiError
from storage import DatabaseUnavailable, JsonModel, PipelineGone

if TYPE_CHECKING:
    from api.request import ApiRequest

_log = logging.getLogger(__name__)

_MAX_CHARS = 100
_INTERNAL = "the service failed; its log has the cause under this request_id"
_BY_STATUS = {
    404: "route_not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}


class ErrorDetailRecord(JsonModel):
    """A failure. ``build_number`` is given if the request created a build that failed."""

    type: str
    code: str
    message: str
    request_id: str
    doc_url: str
    build_number: int | None = None


class ErrorRecord(JsonModel):
    """The body of every error response."""

    error: ErrorDetailRecord


class ErrorHandlers:
    """Writes failures as envelopes. Every unforeseen exception of a request ends here."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    def envelope(self, error: ApiError, request_id: str) -> bytes:
        """Return the JSON body for a failure."""
        problem = error.problem
        body = ErrorDetailRecord(
            type=problem.type,
            code=problem.code,
            message=error.message,
            request_id=request_id,
            doc_url=f"{self._base_url}/docs/errors/{problem.code}",
            build_number=error.build_number,
        )
        return ErrorRecord(error=body).model_dump_json(exclude_none=True).encode()

    def install(self, app: falcon.App[ApiRequest, falcon.Response]) -> None:
        """Register handlers for all exceptions with the app."""
        app.add_error_handler(Exception, self._unexpected)
        app.add_error_handler(falcon.HTTPError, self._falcon_error)
        app.add_error_handler(DatabaseUnavailable, self._database_unavailable)
        app.add_error_handler(PipelineGone, self._pipeline_gone)
        app.add_error_handler(ApiError, self._refused)

    def _refused(self, req: ApiRequest, resp: falcon.Response, error: ApiError, _params: dict[str, Any]) -> None:
        resp.context.error = error
        resp.context.build_number = error.build_number
        resp.status = error.problem.status
        resp.set_headers(dict(error.headers))
        resp.content_type = falcon.MEDIA_JSON
        resp.stream = None
        resp.text = None
        resp.data = self.envelope(error, req.request_id)

    def _falcon_error(
        self, req: ApiRequest, resp: falcon.Response, error: falcon.HTTPError, params: dict[str, Any]
    ) -> None:
        code = _BY_STATUS.get(error.status_code, "malformed_request")
        headers = dict(error.headers or {})
        message = {
            "route_not_found": f"there is no endpoint {req.asked[:_MAX_CHARS]} {req.path[:_MAX_CHARS]}",
            "method_not_allowed": f"{req.asked[:_MAX_CHARS]} is not allowed here; use one of {headers.get('Allow')}",
        }.get(code, error.description or error.title or "the request is invalid")
        self._refused(req, resp, ApiError(code, message, headers=headers), params)

    def _database_unavailable(
        self, req: ApiRequest, resp: falcon.Response, error: DatabaseUnavailable, params: dict[str, Any]
    ) -> None:
        self._refused(req, resp, ApiError("busy", str(error), headers={"Retry-After": "1"}), params)

    def _pipeline_gone(
        self, req: ApiRequest, resp: falcon.Response, error: PipelineGone, params: dict[str, Any]
    ) -> None:
        self._refused(req, resp, ApiError("pipeline_not_found", str(error)), params)

    def _unexpected(self, req: ApiRequest, resp: falcon.Response, error: Exception, params: dict[str, Any]) -> None:
        _log.error("%s %r failed", req.asked, req.path, exc_info=error)
        self._refused(req, resp, ApiError("internal_error", _INTERNAL), params)
