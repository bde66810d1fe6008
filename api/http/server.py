"""The HTTP server: waitress in a thread of its own, with an orderly shutdown."""

from __future__ import annotations

import errno
import math
import os
import socket
import threading
import time
from dataclasses import replace
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

from api.errors.catalog import ApiError
from api.errors.responses import ErrorHandlers
from api.http.channel import MAX_HEADERS, Channel, HeldAnswers
from api.http.slots import StreamSlots
from api.http.workers import Callers, Workers
from api.middleware.client_addresses import ClientAddresses
from api.middleware.headers import standard_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    from waitress.trigger import trigger

    from api.http.preview_threads import PreviewThreads
    from api.http.workers import Task
    from api.settings import HttpSettings

_BACKLOG = 1024
_MAINTENANCE_SECONDS = 1
_GRACE_SECONDS = 1.0
_NOT_CLIENTS = 2
"""Sockets that waitress counts as connections but are not: the listener and the loop's trigger."""

_UNACKNOWLEDGED_MS = 300_000


class CannotListen(Exception):
    """The address to listen on is unavailable; the message says what to do."""


class Server:
    """Serves a WSGI app over HTTP/1.1.

    The constructor takes the address, so that callers queue there while the rest of the service starts. `start` begins
    to serve them, `close` ends it.
    """

    def __init__(self, settings: HttpSettings) -> None:
        """Listen on the configured address. Raises CannotListen."""
        self._socket = _listen(settings.listen)
        self.address = _address(self._socket)
        self.settings = replace(settings, listen=self.address)
        self.slots = StreamSlots(settings.max_streams, settings.max_streams_per_reader)
        self._closing = threading.Event()
        self.listener: Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def local_address(self) -> tuple[str, int]:
        """The host and port at which this host itself reaches the server."""
        host, port = self._socket.getsockname()[:2]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - it is compared with

    def start(self, app: Callable[..., Any]) -> None:
        """Serve requests with the app, in threads of the server's own."""
        self.listener = Listener(app, self._socket, self.settings, self._closing)
        self._thread = threading.Thread(target=self.listener.serve, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, end the streams, let running requests finish, and wait for that.

        Running requests get ``stop_timeout`` seconds. Idempotent; call it from one thread only.
        """
        self.slots.close()
        if self.listener is None or self._thread is None:
            self._socket.close()
            return
        if not self._closing.is_set():
            self._closing.set()
            self.listener.pull_trigger()
        self._thread.join()
        self.listener.close_trigger()


class Listener(TcpWSGIServer):
    """Waitress's server on a socket that is already bound."""

    channel_class = Channel

    def __init__(
        self, app: Callable[..., Any], sock: socket.socket, settings: HttpSettings, closing: threading.Event
    ) -> None:
        self.workers = Workers(settings.threads, self._read, self.pull_trigger)
        self.held = HeldAnswers()
        self.callers = Callers(ClientAddresses(settings.trusted_proxies))
        self.map: dict[int, Any] = {}
        self._settings = settings
        self._closing = closing
        self._close_by: float | None = None
        self._errors = ErrorHandlers(settings.url)
        super().__init__(
            app,
            map=self.map,
            _sock=sock,
            dispatcher=self.workers,  # type: ignore[arg-type] # waitress only calls add_task
            adj=_adjustments(settings),
            sockinfo=(sock.family, sock.type, sock.proto, sock.getsockname()),
            bind_socket=False,
        )

    @cached_property
    def previews(self) -> PreviewThreads:
        """The threads that serve previews."""
        from api.http.preview_threads import PreviewThreads  # noqa: PLC0415 - many services have no previews

        return PreviewThreads()

    def add_task(self, task: Task) -> None:  # type: ignore[override] # a Channel, which is one
        """Serve a request: one for a preview in threads of their own, so that it holds up no other."""
        preview = cast("Channel", task).preview
        if preview is None:
            self.workers.add_task(task)
        else:
            self.previews.add(preview, task)

    def refusal(self, code: str, detail: str, request_id: str) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status line, headers and body for a request that never reached the app."""
        message = {
            "headers_too_large": f"request line and headers are larger than {self._settings.max_header_bytes} bytes,"
            f" or there are more than {MAX_HEADERS} headers",
        }.get(code, detail)
        error = ApiError(code, message)
        status = HTTPStatus(error.problem.status)
        headers = [*standard_headers(request_id), ("Content-Type", "application/json")]
        if code == "busy":
            headers.append(("Retry-After", "1"))
        return f"{status.value} {status.phrase}", headers, self._errors.envelope(error, request_id)

    def set_socket_options(self, conn: socket.socket) -> None:
        """Send small packets at once, and detect peers that vanished."""
        super().set_socket_options(conn)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)

    def maintenance(self, now: float) -> None:
        """Close connections that idle too long or send too slowly; make room if there are too many."""
        super().maintenance(now)  # type: ignore[arg-type] # the stubs say int
        cutoff = time.monotonic() - self._settings.receive_timeout
        for channel in self.channels():
            since = channel.receiving_since()
            if since is not None and since < cutoff:
                channel.will_close = True
        self._make_room()

    def _make_room(self) -> None:
        """If hardly any connection is free, close the quarter that keep the server waiting longest.

        Otherwise a client could open all that are allowed, send nothing, and shut everyone else out.
        """
        most, there = self._settings.max_connections, self.channels()
        if len(there) >= most - most // 16:
            for channel in sorted(there, key=Channel.waiting_seconds, reverse=True)[: max(1, most // 4)]:
                if channel.waiting_seconds() > _GRACE_SECONDS:
                    channel.will_close = True

    def channels(self) -> list[Channel]:
        """Return every open connection."""
        return list(cast("dict[int, Channel]", self.active_channels).values())

    def serve(self) -> None:
        """Serve until the server closes, and end the worker threads."""
        self.held.start()
        self.workers.run()
        self.workers.close(timeout=1.0)
        self.previews.close(timeout=1.0)
        self.held.close(timeout=1.0)

    def pull_trigger(self) -> None:
        """Wake the thread that leads; if it is this one, it reads next anyway."""
        if not self.workers.leads:
            super().pull_trigger()

    def _read(self, seconds: float) -> bool:
        """Wait for requests, so many seconds at most; False after the last. Runs in the thread that leads."""
        if not self._closing.is_set():
            self._wait(seconds)
            return True
        if self._close_by is None:
            self._close_by = time.monotonic() + self._settings.stop_timeout
            wasyncore.dispatcher.close(self)
        if self._close_idle() and time.monotonic() < self._close_by:
            self._wait(min(seconds, 0.1))
            return True
        for channel in self.channels():
            HTTPChannel.handle_close(channel)
        return False

    def _wait(self, seconds: float) -> None:
        rounded = math.ceil(seconds * 1000) / 1000  # waitress cuts off what is less, and would not wait at all
        wasyncore.loop(timeout=rounded, use_poll=True, map=self.map, count=1)

    def _close_idle(self) -> bool:
        """Close idle connections; return whether others remain."""
        for channel in self.channels():
            if channel.idle():
                channel.close()
        return bool(self.active_channels)

    def close_trigger(self) -> None:
        """Close the loop's trigger, once the loop is over and no thread can pull it any more. Idempotent.

        If a thread did not end in time, the trigger stays open: its file descriptor must not be reused.
        """
        if not self.workers.alive and not self.held.alive:
            cast("trigger", self.trigger).close()


def _adjustments(settings: HttpSettings) -> Adjustments:
    """Return waitress's settings.

    With one request of read-ahead the server can see that a client hung up (see Channel). The buffer of a stream to a
    slow client stays in memory, so it is small. Headers from proxies are kept: `ClientAddresses` judges
    them, and by them `is_local` recognizes a proxy.
    """
    return Adjustments(
        ident="ci-daemon",
        threads=settings.threads,
        connection_limit=settings.max_connections + _NOT_CLIENTS,
        cleanup_interval=_MAINTENANCE_SECONDS,
        channel_timeout=int(settings.idle_timeout),
        max_request_header_size=settings.max_header_bytes,
        max_request_body_size=settings.max_body_bytes + 1,
        channel_request_lookahead=1,
        outbuf_high_watermark=512 * 2**10,
        recv_bytes=64 * 2**10,
        log_socket_errors=False,
        asyncore_use_poll=True,
        clear_untrusted_proxy_headers=False,
    )


def check_listen_address(listen: str) -> None:
    """Raise CannotListen if ``HOST:PORT`` is unavailable."""
    _listen(listen).close()


def _listen(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        advice = "stop the program that listens there, or " if error.errno == errno.EADDRINUSE else ""
        raise CannotListen(f"cannot listen on {listen}: {reason}; {advice}change http.listen") from error


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
