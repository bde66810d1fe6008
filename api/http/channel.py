"""Waitress's connections, changed where they do not suit the API.

Waitress answers a request that it cannot parse in plain text, and closes at once on a client that is still sending,
which then sees a reset instead of the response.
"""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Protocol, cast

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

from api.http.parser import Parser
from api.middleware.request_id import enter_request

if TYPE_CHECKING:
    from socket import _RetAddress

    from waitress.adjustments import Adjustments
    from waitress.server import BaseWSGIServer
    from waitress.utilities import Error
    from waitress.wasyncore import _SocketMap

    from api.http.workers import Workers

# Considered: waitress without these changes. It has no setting for any of them, but lets a server name its own classes.
# Cheroot reads requests and sends responses in its workers, so slow clients would hold them all.

__all__ = ["Channel", "RefusalWriter"]

_log = logging.getLogger(__name__)

_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 * 2**10
_SEND_BYTES = 256 * 2**10
_TURN_BYTES = 2**20
_CODES = {413: "body_too_large", 431: "headers_too_large", 500: "internal_error"}


class RefusalWriter(Protocol):
    """The server as its connections use it: it responds to requests that never reached the app."""

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


class Channel(HTTPChannel):
    """One connection.

    After a refusal it lingers: it shuts down its sending side, discards what the client still sends for a moment, and
    only then closes, so that the client reads the response.
    """

    parser_class = Parser
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

    @property
    def refusal_writer(self) -> RefusalWriter:
        """The server, which responds to refused requests."""
        return cast("RefusalWriter", self.server)

    @property
    def patient(self) -> bool:
        """True if the next request can wait for a moment."""
        return cast("Parser", self.requests[0]).patient

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

    def readable(self) -> bool:
        """Tell the server's loop whether to read."""
        if self._linger_until is None:
            return super().readable()
        if time.monotonic() < self._linger_until:
            return True
        super().handle_close()
        return False

    def writable(self) -> bool:
        """Tell the server's loop whether to write what no task is sending itself."""
        return self._linger_until is None and not self._task_sends and bool(super().writable())

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
