"""A connection of a client: its requests are read here, and their limits checked."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, cast

from waitress.buffers import OverflowableBuffer
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import BadRequest, Error, RequestEntityTooLarge, RequestHeaderFieldsTooLarge

from actors import PREVIEW_HOST
from api.middleware.access_log import enter_request
from storage import DatabaseUnavailable, pattern

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import _RetAddress

    from waitress.adjustments import Adjustments
    from waitress.server import BaseWSGIServer
    from waitress.wasyncore import _SocketMap

    from api.http.workers import Caller, Callers, Workers


# Considered: h11 parses as strictly, but waitress's connection drives waitress's parser by its attributes, so another
# parser would mean another server.

MAX_HEADERS = 500
"""The most header lines of a request."""

_SMALL_BODY = 64 * 2**10
"""The most bytes of a body without an archive, a secret, or a report of a source host."""

_SECRET_BODY = 400 * 2**10
"""The most bytes of a body that sets a secret: JSON may need six for each byte of its value."""

_PREVIEW_BODY = 2**20
"""The most bytes of the body of a request to a preview."""

_OF_ORGANIZATION = r"/api/v0/organizations/[^/]+/(?:pipelines/[^/]+/)?"
_TAKES_ARCHIVE = pattern(_OF_ORGANIZATION + r"builds/?")
_TAKES_SECRET = pattern(_OF_ORGANIZATION + r"secrets/[^/]+/?")
_REPORTS = pattern(r"/webhooks/[^/]+/?")

_MAX_CHUNK_LINE = 4096
_MAX_FRAMING = 8 * 2**10
_CHUNKED_BYTES = 4096
_REQUEST_ID = pattern(rb"^x-request-id:[ \t]*([A-Za-z0-9._-]{20,200})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)

_log = logging.getLogger(__name__)
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 * 2**10
_SEND_BYTES = 256 * 2**10
_TURN_BYTES = 2**20
_CODES = {413: "body_too_large", 431: "headers_too_large", 500: "internal_error", 503: "busy"}


class Parser(HTTPRequestParser):
    """Parser of one request, hardened where waitress trusts clients too much.

    Waitress asks for bodies that it has already refused, and drops the connection if an address or a length is invalid.
    It parses in the server's loop, which all connections share: input that is cheap to send must not be expensive to
    parse.
    """

    began: float | None = None
    path = ""

    def received(self, data: bytes) -> int:
        """Parse bytes; return how many of them belong to this request. Runs in the server's loop."""
        if self.began is None:
            self.began = time.monotonic()
            if not _may_begin_a_request(data):
                return self._refuse(
                    "this is not HTTP; if it is TLS, use http://, or put a proxy with TLS in front", data
                )
        before = self.header_plus
        if isinstance(self.body_rcv, ChunkedReceiver):
            consumed = self._received_chunked(self.body_rcv, data)
        else:
            consumed = super().received(data)
        if self.error is not None:
            self.expect_continue = False
            self._keep_request_id(before + data)
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        """Parse request line and headers. Sets ``error`` for too many headers or too large a body.

        Raises waitress's ParsingError.
        """
        if header_plus.count(b"\n") > MAX_HEADERS:
            self.error = RequestHeaderFieldsTooLarge(f"more than {MAX_HEADERS} headers")
            return
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError("the request's address or its Content-Length is invalid") from error
        # A proxy that goes by the other header would not agree on where this request ends (request smuggling).
        if "TRANSFER_ENCODING" in self.headers or (self.chunked and "CONTENT_LENGTH" in self.headers):
            raise ParsingError("Transfer-Encoding needs HTTP/1.1, and no Content-Length beside it")
        if self.content_length > self._most_bytes:
            self.body_rcv, self.content_length = None, 0
            self.error = self._too_large()

    @property
    def reports(self) -> bool:
        """True for the report of a source host, which may come with a thousand others."""
        return _REPORTS.fullmatch(self.path) is not None

    @property
    def preview(self) -> str | None:
        """The UUID of the preview that the request is for; None if it is for this service itself.

        It is one for every port that a request may name, so that no preview gets the threads of several.
        """
        found = PREVIEW_HOST.fullmatch(str(self.headers.get("HOST") or "").lower())
        return None if found is None else found[1]

    @property
    def credentials(self) -> str:
        """The token or cookies of the request, as they came; empty if there are none."""
        return str(self.headers.get("AUTHORIZATION") or self.headers.get("COOKIE") or "")

    @property
    def _most_bytes(self) -> int:
        """The most bytes that the body of this request may have."""
        most: int = self.adj.max_request_body_size - 1
        if self.preview is not None:
            return min(most, _PREVIEW_BODY)
        if self.reports or _TAKES_ARCHIVE.fullmatch(self.path):
            return most
        return min(most, _SECRET_BODY if _TAKES_SECRET.fullmatch(self.path) else _SMALL_BODY)

    def _too_large(self) -> RequestEntityTooLarge:
        return RequestEntityTooLarge(f"the body is larger than {self._most_bytes} bytes")

    def _received_chunked(self, body: ChunkedReceiver, data: bytes) -> int:
        """Parse a part of a chunked body.

        Parsing a chunk costs as much as parsing a kilobyte of data, so a body may not consist mostly of chunk headers.
        """
        consumed = super().received(data[: max(_CHUNKED_BYTES, body.chunk_remainder)])
        if len(body) > self._most_bytes:
            self.error = self._too_large()
            self.completed = True
            return len(data)
        if not self.completed:
            if max(len(body.control_line), len(body.trailer)) > _MAX_CHUNK_LINE:
                return self._refuse("the header of a chunk or the trailer is too long", data)
            if self.body_bytes_received - len(body) > len(body) + _MAX_FRAMING:
                return self._refuse("the chunks of the body are too small", data)
        return consumed

    def _refuse(self, why: str, data: bytes) -> int:
        self.error = BadRequest(why)
        self.completed = True
        return len(data)

    def _keep_request_id(self, head: bytes) -> None:
        """Keep the caller's request id for a refusal, even if the headers were not parsed to the end."""
        found = _REQUEST_ID.search(head)
        if found and "X_REQUEST_ID" not in self.headers:
            self.headers = {**self.headers, "X_REQUEST_ID": found[1].decode()}


def _may_begin_a_request(data: bytes) -> bool:
    """Tell whether the first byte is text or a line break; that of a TLS handshake is neither."""
    return data[:1] in {b"\r", b"\n"} or b" " <= data[:1] < b"\x7f"


# Considered: waitress without these changes. It has no setting for any of them, but lets a server name its own classes.
# Cheroot reads requests and sends responses in its workers, so slow clients would hold them all.


class RefusalWriter(Protocol):
    """The server as its connections use it: it responds to requests that never reached the app."""

    held: HeldAnswers
    """The answers that wait for the disk."""

    callers: Callers
    """The callers that it knows."""

    def refusal(self, code: str, detail: str, request_id: str) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status line, headers and body."""
        ...


class RefusalTask(ErrorTask):
    """Answers a request that could not be read, or whose response failed before its first byte."""

    def execute(self) -> None:
        """Write the error envelope. Runs in a worker thread."""
        channel = cast("Channel", self.channel)
        request = cast("Parser", self.request)
        error = cast("Error", request.error)
        request_id = enter_request(request.headers.get("X_REQUEST_ID"))
        code = _CODES.get(error.code, "malformed_request")
        _log.info("refused a request from %s: %s", channel.addr[0], code)
        self.status, headers, body = channel.refusal_writer.refusal(code, error.body, request_id)
        self.response_headers = headers
        channel.refused = True
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class HeldAnswers:
    """The connections whose answers wait for the disk, and the thread that waits.

    An answer may have to wait for the disk (engine.md, "After a crash"). The connection then holds it, one thread waits
    for all that are held, and the thread that made it serves others meanwhile.

    They wait one after the other. What is written while the first one waits is on the disk with the next sync, so that
    the waits of all that came meanwhile end at once.
    """

    def __init__(self) -> None:
        self._channels: SimpleQueue[tuple[Channel, Parser] | None] = SimpleQueue()
        self._last = 0
        self._thread = threading.Thread(target=self._send, name="http-answers", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def served_before(self, channel: Channel) -> bool:
        """Tell whether the last request came over the same connection; note that this one does."""
        last, self._last = self._last, id(channel)
        return last == id(channel)

    def add(self, channel: Channel, request: Parser) -> None:
        """Send the answer to the request, which the connection holds, when the wait for it is over."""
        self._channels.put((channel, request))

    def close(self, timeout: float) -> None:
        """End the thread after the answers that are there; wait ``timeout`` seconds for it."""
        self._channels.put(None)
        self._thread.join(timeout)

    def _send(self) -> None:
        while (held := self._channels.get()) is not None:
            channel, request = held
            try:
                channel.send_held(request)
            except Exception:  # noqa: BLE001 - the boundary of a request; the next one gets its answer
                _log.exception("a held answer could not be sent")


class _AppTask(WSGITask):
    """A request for the app, which may ask that its answer is held."""

    def get_environment(self) -> dict[str, Any]:
        """Return the environment of the request."""
        environment: dict[str, Any] = super().get_environment()
        channel = cast("Channel", self.channel)
        environment["ci_daemon.hold_answer"] = channel.hold_answer
        environment["ci_daemon.know_caller"] = channel.know_caller
        return environment


class _Busy(Error):
    """The disk did not keep what an answer would have told."""

    code = 503
    reason = "Service Unavailable"


class Channel(HTTPChannel):
    """One connection, changed where waitress's does not suit the API.

    Waitress answers a request that it cannot parse in plain text, and closes at once on a client that is still sending,
    which then sees a reset instead of the response.

    After a refusal it lingers: it shuts down its sending side, discards what the client still sends for a moment, and
    only then closes, so that the client reads the response.
    """

    parser_class = Parser
    task_class = _AppTask
    error_task_class = RefusalTask

    def __init__(
        self,
        server: BaseWSGIServer,
        sock: socket.socket,
        addr: _RetAddress,
        adj: Adjustments,
        map: _SocketMap | None = None,  # noqa: A002 - waitress's name
    ) -> None:
        super().__init__(server, sock, addr, adj, map)
        self.sendbuf_len = _SEND_BYTES
        self.refused = False
        self._turn = _TURN_BYTES
        self._task_sends = False
        self._linger_until: float | None = None
        self._alone = False
        self._wait: Callable[[], None] | None = None
        self._held: Parser | None = None

    @property
    def refusal_writer(self) -> RefusalWriter:
        """The server, which responds to refused requests."""
        return cast("RefusalWriter", self.server)

    @property
    def caller(self) -> Caller:
        """The caller of the next request, as far as the server knows."""
        return self.refusal_writer.callers.of(cast("Parser", self.requests[0]), str(self.addr[0]))

    @property
    def preview(self) -> str | None:
        """The UUID of the preview that the next request is for, None for others."""
        return cast("Parser", self.requests[0]).preview

    def know_caller(self, user: str) -> None:
        """Note the user who sent the request that is served now, by its id."""
        self.refusal_writer.callers.know(cast("Parser", self.requests[0]), user)

    def receiving_since(self) -> float | None:
        """Return when the partly received request began, in monotonic time; None if there is none."""
        request = self.request
        return request.began if isinstance(request, Parser) and not self.requests else None

    def waiting_seconds(self) -> float:
        """Return the seconds that the client has kept the server waiting, to send or to receive."""
        if self.requests or self._linger_until is not None:
            return 0.0
        since = self.receiving_since()
        return time.time() - self.last_activity if since is None else time.monotonic() - since

    def idle(self) -> bool:
        """Tell whether nothing is being received, served or sent."""
        return not self.requests and self.request is None and not self.total_outbufs_len

    def check_client_disconnected(self) -> bool:  # type: ignore[override] # the stubs say that it returns None
        """Tell whether the client hung up. An app that waits calls this; meanwhile another thread leads."""
        cast("Workers", self.server.task_dispatcher).hand_over()
        return not self.connected

    def hold_answer(self, wait: Callable[[], None] | None) -> bool:
        """Hold the answer that is made now until ``wait`` returns; called before its first byte.

        It waits itself, and holds nothing, if the request before came over this connection as well, so that there seems
        to be no other. Returns False if the caller has to wait, which keeps nobody else waiting: another thread leads,
        from then on if there is no ``wait``, as a stream needs, or if the connection holds an answer already.
        """
        workers = cast("Workers", self.server.task_dispatcher)
        if wait is None or self._wait is not None or not workers.leads:
            workers.hand_over()
            return False
        if self._alone:
            workers.wait_for_disk(wait)
            return True
        self._wait, self._held = wait, cast("Parser", self.requests[0])
        return True

    def service(self) -> None:
        """Serve a request. Runs in a worker thread."""
        self._alone = self.refusal_writer.held.served_before(self)
        super().service()
        if self._wait is not None and (request := self._take_held()) is not None:
            self.refusal_writer.held.add(self, request)

    def _take_held(self) -> Parser | None:
        """Return the request whose answer is held and was made, once."""
        with self.outbuf_lock:
            held, self._held = self._held, None
        return held

    def readable(self) -> bool:
        """Tell the server's loop whether to read: also while an answer is held, as nothing wakes it later."""
        if self._linger_until is None:
            if self._wait is not None:
                ending = self.will_close or self.close_when_flushed
                return not ending and len(self.requests) <= self.adj.channel_request_lookahead
            return super().readable()
        if time.monotonic() < self._linger_until:
            return True
        super().handle_close()
        return False

    def writable(self) -> bool:
        """Tell the server's loop whether to write what no task is sending itself."""
        if self._linger_until is not None or self._task_sends:
            return False
        return self.will_close if self._wait is not None else bool(super().writable())

    def handle_read(self) -> None:
        """Read, in the server's loop."""
        if self._linger_until is None:
            super().handle_read()
            return
        try:
            self.recv(_LINGER_BYTES)
        except OSError:
            super().handle_close()

    def handle_write(self) -> None:
        """Send pending bytes in the server's loop, at most one turn's worth: other connections wait for it."""
        self._turn = _TURN_BYTES
        super().handle_write()

    def _flush_some(self, do_close: bool = True) -> bool:  # noqa: FBT001, FBT002 - waitress's signature
        """Send what the client takes; a task, in its own thread, then wakes the loop for the rest."""
        if self._wait is not None:
            return False
        self._task_sends = not do_close
        try:
            flushed: bool = super()._flush_some(do_close)  # type: ignore[misc] # the stubs lack it
        finally:
            self._task_sends = False
        return flushed

    def send(self, data: bytes, do_close: bool = True) -> int:  # noqa: FBT001, FBT002 - waitress's signature
        """Hand bytes to the kernel; 0 if it takes none now, or if the loop's turn is over."""
        if not do_close:  # so that a task sends, in its own thread
            return super().send(data, do_close)
        if self._turn <= 0:
            return 0
        sent = super().send(data, do_close)
        self._turn -= sent
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Wait until the client has taken what is too much to keep; an answer that is held is kept."""
        if self._wait is None:
            super()._flush_outbufs_below_high_watermark()  # type: ignore[misc] # the stubs lack it

    def send_held(self, request: Parser) -> None:
        """Wait, then send the answer that is held, or a refusal if the disk did not keep what it tells."""
        wait = self._wait
        if wait is None:
            return
        try:
            wait()
        except DatabaseUnavailable as error:
            self._refuse_held(request, str(error))
        with self.outbuf_lock:
            if self.connected:
                self._flush_exception(super()._flush_some, do_close=False)  # type: ignore[misc,attr-defined] # as above
            self._wait = None
        if self.total_outbufs_len or self.close_when_flushed or self.will_close:
            self.server.pull_trigger()

    def _refuse_held(self, request: Parser, why: str) -> None:
        """Put a refusal in the place of the answer, after which the connection closes."""
        refused = Parser(self.adj)
        refused.version, refused.headers, refused.error = request.version, request.headers, _Busy(why)
        with self.outbuf_lock, suppress(ClientDisconnected):
            for outbuf in self.outbufs:
                outbuf.close()
            self.outbufs = [OverflowableBuffer(self.adj.outbuf_overflow)]
            self.total_outbufs_len = self.current_outbuf_count = 0
            RefusalTask(self, cast("Error", refused)).service()  # the stubs do not know that it is a request
        self.close_when_flushed = True

    def handle_close(self) -> None:
        """Close, or begin to linger after a refusal."""
        if self.refused and self._linger_until is None and self._shut_down_sending():
            self._linger_until = time.monotonic() + _LINGER_SECONDS
            self.will_close = False
        else:
            super().handle_close()

    def _shut_down_sending(self) -> bool:
        """Shut down sending; False if bytes are still pending or the client is gone."""
        if self.socket is None or self.total_outbufs_len:
            return False
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True
