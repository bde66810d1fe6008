"""A job's log as bytes, by ranges (wire-decisions.md, "Logs and artifacts")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api.errors import ApiError
from api.follow import Patience
from api.log_access import log_vanished
from api.operations import Answer, Parameter, operation
from api.ranges import parse_range
from api.spans import Span

if TYPE_CHECKING:
    import falcon

    from api.engine import Engine
    from api.log_access import LogAccess, ReadableLog
    from api.request import ApiRequest
    from api.streams import Streams
    from storage import Clock, JobLog, Storage

__all__ = ["Logs"]

_SMALL = 64 * 2**10
_MAX_WAIT = 30
_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


_HEADERS = {"X-Log-Complete": "`true` where the job has ended, so that the log grows no more; else `false`."}


class Logs:
    """``…/jobs/{job_id}/log``.

    A waiting request holds a thread and so takes a place among the streams; where there is none, or the server is about
    to close, it is answered at once. What is sent holds no thread, however slowly the client reads.
    """

    def __init__(self, storage: Storage, engine: Engine, access: LogAccess, streams: Streams, clock: Clock) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._streams = streams
        self._clock = clock

    @operation(
        "getJobLog",
        Answer(200, "The whole log as it is now.", media_type="text/plain", headers=_HEADERS),
        Answer(
            206,
            "The range.",
            media_type="text/plain",
            headers=_HEADERS | {"Content-Range": "Which bytes of how many these are."},
        ),
        errors=(
            "log_stream_unauthorized",
            "log_stream_forbidden",
            "organization_not_found",
            "pipeline_not_found",
            "build_not_found",
            "job_not_found",
            "log_expired",
            "range_not_satisfiable",
            "invalid_wait",
        ),
        parameters=(
            Parameter("Range", "One range of bytes.", {"type": "string", "examples": ["bytes=0-65535"]}, "header"),
            Parameter(
                "wait",
                "Seconds to wait for bytes past the range's start, or the job's end.",
                {"type": "number", "minimum": 0, "maximum": _MAX_WAIT},
            ),
        ),
        security="log_token",
    )
    def on_get(self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str) -> None:
        """Get a range of the job's log, or the whole log as it is now."""
        readable = self._access.by_path(req, org, pipeline, number, job_id)
        try:
            self._answer(req, resp, readable)
        except FileNotFoundError as error:  # it expired while it was looked at
            raise log_vanished() from error

    def _answer(self, req: ApiRequest, resp: falcon.Response, readable: ReadableLog) -> None:
        log = self._storage.logs.reader(readable.build.uuid, readable.job.uuid)
        wanted = parse_range(req.get_header("Range"))
        ended, size = self._settled(req, readable, log, wanted.first if wanted else 0)
        span = (0, size) if wanted is None else wanted.within(size)
        if span is None:
            raise _nothing_there(size, ended=ended)
        start, end = span
        resp.status = 200 if wanted is None else 206
        resp.content_type = "text/plain; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_headers({"Accept-Ranges": "bytes", "X-Log-Complete": _flag(ended)})
        if wanted is not None:
            resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if end - start <= _SMALL:
            resp.data = log.read(start, end - start)
        else:
            resp.stream = Span(log, start, end)
            resp.content_length = end - start

    def _settled(self, req: ApiRequest, readable: ReadableLog, log: JobLog, start: int) -> tuple[bool, int]:
        """Return whether the log is complete and its size, having waited for as long as the caller wants."""
        until = self._clock.monotonic() + (0 if req.head else _wait_seconds(req.get_param("wait")))
        ended, size = self._look(readable, log)
        if ended or size > start or self._clock.monotonic() >= until:
            return ended, size
        place = self._streams.take()
        if place is None:
            return ended, size
        patience = Patience.of(req, self._clock, self._streams)
        try:
            with self._engine.watch(readable.job.uuid) as watch:
                ended, size = self._look(readable, log)
                while not ended and size <= start and patience.wait(watch, until):
                    ended, size = self._look(readable, log)
        finally:
            place.free()
        return self._look(readable, log)

    def _look(self, readable: ReadableLog, log: JobLog) -> tuple[bool, int]:
        """Return whether the job has ended, and the log's size.

        The state comes first: what is written before a job's end is then in the size.
        """
        job = self._storage.jobs.get(readable.job.id)
        ended = job is None or job.state.terminal
        return ended, log.size()


def _wait_seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    if not _SECONDS.fullmatch(text) or float(text) > _MAX_WAIT:
        raise ApiError("invalid_wait", f"wait: expected a number of seconds from 0 to {_MAX_WAIT}")
    return float(text)


def _nothing_there(size: int, *, ended: bool) -> ApiError:
    return ApiError(
        "range_not_satisfiable",
        f"the log has {size} bytes{'' if ended else ' so far'}, none of them in the range",
        headers={"Content-Range": f"bytes */{size}", "X-Log-Complete": _flag(ended)},
    )


def _flag(value: bool) -> str:  # noqa: FBT001 - the value is what is written
    return "true" if value else "false"
