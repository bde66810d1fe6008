"""Logs as bytes, by range, with waits for more (wire-decisions.md, "Logs and artifacts")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.errors import ApiError
from api.follow import Patience
from api.log_access import log_vanished
from api.operations import Answer, Parameter
from api.ranges import parse_range
from api.spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.engine import Engine
    from api.request import ApiRequest
    from api.streams import Reader, Streams
    from storage import Clock, JobLog

__all__ = ["ERRORS", "PARAMETERS", "PART", "WHOLE", "FollowedLog", "LogRanges"]

_SMALL = 64 * 2**10
_MAX_WAIT = 30
_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)

_HEADERS = {"X-Log-Complete": "`true` where what writes the log has ended, so that it grows no more; else `false`."}

WHOLE = Answer(200, "The whole log as it is now.", media_type="text/plain", headers=_HEADERS)
PART = Answer(
    206,
    "The range.",
    media_type="text/plain",
    headers=_HEADERS | {"Content-Range": "Which bytes of how many these are."},
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
    Parameter("Range", "One range of bytes.", {"type": "string", "examples": ["bytes=0-65535"]}, "header"),
    Parameter(
        "wait",
        "Seconds to wait for bytes past the range's start, or the log's end.",
        {"type": "number", "minimum": 0, "maximum": _MAX_WAIT},
    ),
)


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """A log that may still grow; the engine announces its changes under ``uuid``."""

    log: JobLog
    uuid: str
    ended: Callable[[], bool]
    reader: Callable[[], Reader]

    def look(self) -> tuple[bool, int]:
        """Return whether the log is complete, and its size.

        Completeness is read first, so that the size includes all that was written before the end.
        """
        return self.ended(), self.log.size()


class LogRanges:
    """Responds with bytes of a log. Safe in any thread.

    A waiting request holds a thread and so takes a stream slot. If there is none, or the server is about to close, the
    response comes at once. Sending holds no thread, however slow the client is.
    """

    def __init__(self, engine: Engine, streams: Streams, clock: Clock) -> None:
        self._engine = engine
        self._streams = streams
        self._clock = clock

    def answer(self, req: ApiRequest, resp: falcon.Response, followed: FollowedLog) -> None:
        """Respond with the requested range, or with the whole log. Raises ApiError."""
        try:
            self._answer(req, resp, followed)
        except FileNotFoundError as error:  # the log expired during the request
            raise log_vanished() from error

    def _answer(self, req: ApiRequest, resp: falcon.Response, followed: FollowedLog) -> None:
        wanted = parse_range(req.get_header("Range"))
        ended, size = self._settled(req, followed, wanted.first if wanted else 0)
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
            resp.data = followed.log.read(start, end - start)
        else:
            resp.stream = Span(followed.log, start, end)
            resp.content_length = end - start

    def _settled(self, req: ApiRequest, followed: FollowedLog, start: int) -> tuple[bool, int]:
        """Return whether the log is complete, and its size, after the wait that the caller asked for."""
        until = self._clock.monotonic() + (0 if req.head else _wait_seconds(req.get_param("wait")))
        ended, size = followed.look()
        if ended or size > start or self._clock.monotonic() >= until:
            return ended, size
        place = self._streams.take_to_read(followed.reader())
        if place is None:
            return ended, size
        patience = Patience.of(req, self._clock, self._streams)
        try:
            with self._engine.watch(followed.uuid) as watch:
                ended, size = followed.look()
                while not ended and size <= start and patience.wait(watch, until):
                    ended, size = followed.look()
        finally:
            place.free()
        return followed.look()


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
