"""Logs of jobs and renders as bytes: their ranges, and how they are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter, ValidationError

from api.errors.catalog import ApiError
from api.fields import NUMBER
from api.http.files import SourceSlice, parse_range
from api.http.slots import RequestWait
from api.logs.access import log_missing
from api.openapi.operations import Answer, Parameter, operation
from storage import RENDER_LOG, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.engine import EngineInterface
    from api.http.slots import LogReader, StreamSlots
    from api.logs.access import LogAccess, ReadableLog
    from api.request import ApiRequest
    from storage import Clock, JobLog, Storage


_SMALL = 64 * 2**10
_MAX_WAIT = 30
_SECONDS = TypeAdapter(Annotated[float, Field(ge=0, le=_MAX_WAIT), NUMBER])

_HEADERS = {"X-Log-Complete": "`true` if the log is complete and grows no more, else `false`."}

WHOLE = Answer(200, "The whole log as it is now.", media_type="text/plain", headers=_HEADERS)
PART = Answer(
    206,
    "The range.",
    media_type="text/plain",
    headers=_HEADERS | {"Content-Range": "The position of these bytes and the full size."},
)

ERRORS = (
    "log_stream_unauthorized",
    "log_stream_forbidden",
    "organization_not_found",
    "pipeline_not_found",
    "build_not_found",
    "log_expired",
    "range_not_satisfiable",
    "invalid_wait",
)

PARAMETERS = (
    Parameter(
        "Range",
        "One range of bytes; several are ignored.",
        {"type": "string", "examples": ["bytes=0-65535"]},
        "header",
    ),
    Parameter(
        "wait",
        "The most seconds to wait for bytes after the start of the range, or for the end of the log.",
        _SECONDS.json_schema(),
    ),
)


@immutable
class GrowingLog:
    """A log that may still grow; the engine announces its changes under ``uuid``."""

    log: JobLog
    uuid: str
    ended: Callable[[], bool]
    reader: Callable[[], LogReader]

    def progress(self) -> tuple[bool, int]:
        """Return whether the log is complete, and its size.

        Completeness is read first, so that the size includes all that was written before the end.
        """
        return self.ended(), self.log.size()


class LogRanges:
    """Responds with bytes of a log. Safe in any thread.

    A waiting request holds a thread and so takes a stream slot. If there is none, or the server is about to close, the
    response comes at once. Sending holds no thread, however slow the client is.
    """

    def __init__(self, engine: EngineInterface, slots: StreamSlots, clock: Clock) -> None:
        self._engine = engine
        self._slots = slots
        self._clock = clock

    def answer(self, req: ApiRequest, resp: falcon.Response, growing: GrowingLog) -> None:
        """Respond with the requested range, or with the whole log. Raises ApiError."""
        try:
            self._answer(req, resp, growing)
        except FileNotFoundError as error:  # the log expired during the request
            raise log_missing() from error

    def _answer(self, req: ApiRequest, resp: falcon.Response, growing: GrowingLog) -> None:
        wanted = parse_range(req.get_header("Range"))
        ended, size = self._after_wait(req, growing, wanted.first if wanted else 0)
        bounds = (0, size) if wanted is None else wanted.within(size)
        if bounds is None:
            raise _not_satisfiable(size, ended=ended)
        start, end = bounds
        resp.status = 200 if wanted is None else 206
        resp.content_type = "text/plain; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_headers({"Accept-Ranges": "bytes", "X-Log-Complete": _flag(ended)})
        if wanted is not None:
            resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if end - start <= _SMALL:
            resp.data = growing.log.read(start, end - start)
        else:
            resp.stream = SourceSlice(growing.log, start, end)
            resp.content_length = end - start

    def _after_wait(self, req: ApiRequest, growing: GrowingLog, start: int) -> tuple[bool, int]:
        """Return whether the log is complete, and its size, after the wait that the caller asked for."""
        until = self._clock.monotonic() + (0 if req.head else _wait_seconds(req.get_param("wait")))
        ended, size = growing.progress()
        if ended or size > start or self._clock.monotonic() >= until:
            return ended, size
        slot = self._slots.acquire_for_reader(growing.reader())
        if slot is None:
            return ended, size
        waiting = RequestWait.of(req, self._clock, self._slots)
        try:
            with self._engine.watch(growing.uuid) as watch:
                ended, size = growing.progress()
                waits = True
                while waits and not ended and size <= start:
                    waits = waiting.wait(watch, until)
                    ended, size = growing.progress()
        finally:
            slot.release()
        return ended, size


def _wait_seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        return _SECONDS.validate_python(text)
    except ValidationError:
        raise ApiError("invalid_wait", f"wait: expected a number of seconds from 0 to {_MAX_WAIT}") from None


def _not_satisfiable(size: int, *, ended: bool) -> ApiError:
    return ApiError(
        "range_not_satisfiable",
        f"the log has {size} bytes{'' if ended else ' so far'}, none of them in the requested range",
        headers={"Content-Range": f"bytes */{size}", "X-Log-Complete": _flag(ended)},
    )


def _flag(value: bool) -> str:  # noqa: FBT001 - the value is what is written
    return "true" if value else "false"


class JobLogResource:
    """``…/jobs/{job_id}/log``, and ``…/services/{service}/log`` of its services."""

    def __init__(self, storage: Storage, access: LogAccess, ranges: LogRanges) -> None:
        self._storage = storage
        self._access = access
        self._ranges = ranges

    @operation("getJobLog", WHOLE, PART, errors=(*ERRORS, "job_not_found"), parameters=PARAMETERS, security="log_token")
    def on_get(self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str) -> None:
        """Get a job's log as it is now, or a range of it."""
        self._answer(req, resp, self._access.by_path(req, org, pipeline, number, job_id))

    @operation(
        "getServiceLog",
        WHOLE,
        PART,
        errors=(*ERRORS, "job_not_found", "service_not_found"),
        parameters=PARAMETERS,
        security="log_token",
    )
    def on_get_service(
        self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str, service: str
    ) -> None:
        """Get the log of a service of a job as it is now, or a range of it."""
        self._answer(req, resp, self._access.by_path(req, org, pipeline, number, job_id).of_service(service))

    def _answer(self, req: ApiRequest, resp: falcon.Response, readable: ReadableLog) -> None:
        growing = GrowingLog(
            readable.of(self._storage.logs),
            readable.job.uuid,
            ended=lambda: self._ended(readable),
            reader=lambda: self._access.reader(req, readable.build),
        )
        self._ranges.answer(req, resp, growing)

    def _ended(self, readable: ReadableLog) -> bool:
        job = self._storage.jobs.get(readable.job.id)
        return job is None or job.state.terminal


class RenderLogResource:
    """``…/builds/{number}/render-log``; at most 1 MiB, written when the render is over."""

    def __init__(self, storage: Storage, access: LogAccess, ranges: LogRanges) -> None:
        self._storage = storage
        self._access = access
        self._ranges = ranges

    @operation(
        "getRenderLog",
        WHOLE,
        PART,
        errors=(*ERRORS, "render_log_not_found"),
        parameters=PARAMETERS,
        security="log_token",
    )
    def on_get(self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get the render log, the output of the pipeline files, or a range of it."""
        build = self._access.by_build(req, org, pipeline, number)
        renders = self._storage.renders
        if renders.get(build.id) is None:
            raise ApiError("render_log_not_found", "the build was created with pipeline_ir, so there is no render log")
        log = self._storage.logs.reader(build.uuid, RENDER_LOG)
        growing = GrowingLog(
            log,
            build.uuid,
            ended=lambda: not renders.pending(build.id),
            reader=lambda: self._access.reader(req, build),
        )
        self._ranges.answer(req, resp, growing)
