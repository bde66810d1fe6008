"""A job's log as Server-Sent Events, for browsers (wire-decisions.md, "Logs and artifacts")."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.http.slots import RequestWait, StreamBody, StreamSlots
from api.openapi.operations import Answer, Parameter, operation
from storage import JsonModel, pattern

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import falcon

    from api.engine import EngineInterface
    from api.logs.access import LogAccess, ReadableLog
    from storage import Clock, LogChunk, Storage

# Considered: falcon's `Response.sse` exists only in ASGI apps.

_BATCH_BYTES = 64 * 2**10
_HISTORY = 2**20
_HEARTBEAT_SECONDS = 15.0
_RETRY_SECONDS = "5"
_OFFSET = pattern(r"[0-9]{1,18}", re.ASCII)
_DONE = b"event: done\ndata: {}\n\n"
_HEARTBEAT = b": still here\n\n"
_RESTARTING = b": the service restarts\nretry: 1000\n\n"


_SEQ = {"type": "string", "examples": ["0"]}


class ChunkRecord(JsonModel):
    """A piece of the log: ``seq`` is the byte offset of its end, ``ts`` nanoseconds since the epoch.

    ``stream_kind`` is 0 for the job's output, 2 for a notice of the service.
    """

    seq: int
    stream_kind: int
    content: str
    ts: int


class HistoryRecord(JsonModel):
    """The log's content when the stream began, up to a megabyte; the rest follows as chunks."""

    chunks: list[ChunkRecord]


_EVENTS = Answer(200, "Events `history`, `chunk` and `done`.", media_type="text/event-stream")
_ERRORS = ("log_stream_unauthorized", "log_stream_forbidden", "job_not_found", "log_expired", "too_many_streams")
_PARAMETERS = (
    Parameter(
        "Last-Event-ID",
        "Resume after this `seq`; without it the stream starts at the beginning.",
        _SEQ,
        "header",
    ),
    Parameter("last_event_id", "The same as `Last-Event-ID`, for clients that cannot set headers.", _SEQ),
)


class LogEventsResource:
    """``/v0/jobs/{job_id}/logs``, and ``…/services/{service}/logs`` of its services."""

    def __init__(
        self, storage: Storage, engine: EngineInterface, access: LogAccess, slots: StreamSlots, clock: Clock
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._slots = slots
        self._clock = clock

    @operation("streamJobLog", _EVENTS, errors=_ERRORS, parameters=_PARAMETERS, security="log_token")
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: str) -> None:
        """Follow a job's log as Server-Sent Events."""
        self._stream(req, resp, self._access.by_job(req, job_id))

    @operation(
        "streamServiceLog",
        _EVENTS,
        errors=(*_ERRORS, "service_not_found"),
        parameters=_PARAMETERS,
        security="log_token",
    )
    def on_get_service(self, req: falcon.Request, resp: falcon.Response, job_id: str, service: str) -> None:
        """Follow the log of a service of a job as Server-Sent Events."""
        self._stream(req, resp, self._access.by_job(req, job_id).of_service(service))

    def _stream(self, req: falcon.Request, resp: falcon.Response, readable: ReadableLog) -> None:
        slot = self._slots.acquire_for_reader(self._access.reader(req, readable.build))
        if slot is None:
            raise ApiError(
                "too_many_streams",
                "too many log streams are open, of yours or of all readers; try again soon",
                headers={"Retry-After": _RETRY_SECONDS},
            )
        after = _offset(req.get_header("Last-Event-ID") or req.get_param("last_event_id"))
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_header("X-Accel-Buffering", "no")
        waiting = RequestWait.of(req, self._clock, self._slots)
        resp.stream = StreamBody(self._batches(readable, after, waiting), slot)

    def _batches(self, readable: ReadableLog, after: int, waiting: RequestWait) -> Generator[bytes]:
        """Yield the stream in batches of whole events. Runs, and waits, in the request's thread."""
        log = readable.of(self._storage.logs)
        with self._engine.watch(readable.job.uuid) as watch:
            ended = self._ended(readable)
            chunks = log.chunks(after)
            history = _take_history(chunks)
            after = history[-1].seq if history else after
            yield _history_event(history)
            heartbeat_at = self._clock.monotonic() + _HEARTBEAT_SECONDS
            while True:
                for batch, seq in _batches_of(chunks):
                    after = seq
                    yield batch
                    heartbeat_at = self._clock.monotonic() + _HEARTBEAT_SECONDS
                    if waiting.over:
                        break
                if ended and not waiting.over:
                    yield _DONE
                    return
                if not waiting.wait(watch, heartbeat_at):
                    if waiting.over:
                        yield _RESTARTING
                        return
                    yield _HEARTBEAT
                    heartbeat_at += _HEARTBEAT_SECONDS
                ended = self._ended(readable)
                chunks = log.chunks(after)

    def _ended(self, readable: ReadableLog) -> bool:
        """Tell whether the job has ended. Ask before reading the log: if it has, the log read is complete."""
        job = self._storage.jobs.get(readable.job.id)
        self._storage.await_disk()
        return job is None or job.state.terminal


def _take_history(chunks: Iterator[LogChunk]) -> list[LogChunk]:
    taken, size = [], 0
    while size < _HISTORY:
        chunk = next(chunks, None)
        if chunk is None:
            break
        taken.append(chunk)
        size += len(chunk.content)
    return taken


def _batches_of(chunks: Iterator[LogChunk]) -> Iterator[tuple[bytes, int]]:
    """Yield chunk events joined up to a batch's size, each batch with its last chunk's ``seq``."""
    events: list[bytes] = []
    size = 0
    seq = 0
    for chunk in chunks:
        events.append(_chunk_event(chunk))
        size += len(events[-1])
        seq = chunk.seq
        if size >= _BATCH_BYTES:
            yield b"".join(events), seq
            events, size = [], 0
    if events:
        yield b"".join(events), seq


def _history_event(chunks: list[LogChunk]) -> bytes:
    document = b", ".join(_json(chunk) for chunk in chunks)
    name = b"id: %d\n" % chunks[-1].seq if chunks else b""
    return b'event: history\n%sdata: {"chunks": [%s]}\n\n' % (name, document)


def _chunk_event(chunk: LogChunk) -> bytes:
    return b"event: chunk\nid: %d\ndata: %s\n\n" % (chunk.seq, _json(chunk))


def _json(chunk: LogChunk) -> bytes:
    document = {
        "seq": chunk.seq,
        "stream_kind": int(chunk.kind),
        "content": chunk.content.decode("utf-8", "replace"),
        "ts": chunk.time_ns,
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _offset(text: str | None) -> int:
    """Parse the offset to resume from; anything invalid means the beginning.

    A browser sends back the last id that it received, whatever that was.
    """
    return int(text) if text is not None and _OFFSET.fullmatch(text) else 0
