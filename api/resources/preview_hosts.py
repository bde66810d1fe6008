"""Previews as browsers see them: each on a host of its own, which has nothing else of the service.

What is behind is a stranger's program. Its host is another origin than the console's, so that its scripts read neither
pages nor cookies of the service; a browser sends it no session. Members enter by a link of the console that works once,
and get a cookie for this host alone. Each part of an answer has a bound of size and time, and requests to previews have
threads of their own (`PreviewThreads`).
"""

from __future__ import annotations

import html
import io
import logging
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from api.middleware.access_log import enter_request
from api.operations.previews import ENTRANCE, ENTRY, local_target
from storage import DatabaseUnavailable, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors import PreviewHosts
    from api.http.slots import StreamSlots
    from api.operations.service import Service
    from storage import Preview

    Answer = Iterable[bytes]
    Start = Callable[[str, list[tuple[str, str]]], object]

_log = logging.getLogger(__name__)

_COOKIE = "__Host-ci-daemon-preview"
_LOOK, _LOOK_LIFETIME = "preview look", timedelta(hours=12)

_WAKE_SECONDS = 2.5
"""The most seconds for which a request waits for a preview that wakes; then its page asks again."""

_HEAD_BYTES, _CHUNK_BYTES = 64 << 10, 64 << 10
_HEAD_SECONDS, _PART_SECONDS, _SECONDS = 30.0, 30.0, 300.0
"""The seconds for the head of an answer, between two parts of its body, and for all of it."""

_BYTES_PER_SECOND = 16 << 20
_CHECK_SECONDS = 2.0
"""The seconds between two checks whether a member who gets a long answer still may."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NAME = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_OF_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_SENT = _OF_CONNECTION | {"host", "content-length", "cookie", "origin", "expect"}
_NOT_ANSWERED = _OF_CONNECTION | {"set-cookie", "clear-site-data", "strict-transport-security", "alt-svc", "location"}
"""Headers of answers that are not passed on: they would act on other hosts, or are rewritten."""

_OF_PROXIES = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-")
"""Beginnings of headers by which a proxy before the service would give out files of its own."""

_LOWEST, _HIGHEST = 200, 599
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body><h1>{title}</h1>{text}</body></html>
"""


class _TooLong(OSError):
    """An answer is larger, or takes longer, than it may."""


@immutable
class _Request:
    """A request to a preview: its host, and what WSGI says of it."""

    environ: dict[str, Any]
    host: str

    @property
    def method(self) -> str:
        return str(self.environ["REQUEST_METHOD"])

    @property
    def target(self) -> str:
        """The path and the query, as they came."""
        target = str(self.environ.get("REQUEST_URI") or "")
        if target.startswith("/") and target.isascii() and target.isprintable() and " " not in target:
            return target
        query = self.environ.get("QUERY_STRING")
        path = quote(str(self.environ.get("PATH_INFO") or "/").encode("latin-1"))
        return f"{path}?{query}" if query else path

    @property
    def wants_page(self) -> bool:
        return self.method in {"GET", "HEAD"} and "text/html" in str(self.environ.get("HTTP_ACCEPT") or "")

    @property
    def headers(self) -> Iterator[tuple[str, str]]:
        """The headers that a preview gets, but for cookies."""
        for name, value in self.environ.items():
            if name.startswith("HTTP_") or (name == "CONTENT_TYPE" and value):
                header = name.removeprefix("HTTP_").replace("_", "-").title()
                if header.lower() not in _NOT_SENT:
                    yield header, str(value)

    @property
    def cookies(self) -> list[tuple[str, str]]:
        """The cookies, as they came."""
        pairs = (each.strip().partition("=") for each in str(self.environ.get("HTTP_COOKIE") or "").split(";"))
        return [(name, value) for name, _, value in pairs if name]

    def own_cookie(self) -> str:
        """Return the value of the cookie by which a member is known; empty without one."""
        return next((value for name, value in self.cookies if name == _COOKIE), "")


class PreviewDoor:
    """The app of the hosts of previews, by WSGI. Safe in any thread."""

    def __init__(self, service: Service, slots: StreamSlots, console_url: str) -> None:
        """``console_url`` is where people open the console."""
        self._service = service
        self._slots = slots
        self._console_url = console_url
        self._entered: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def hosts(self) -> PreviewHosts | None:
        """The hosts of previews; None if there are none."""
        return self._service.engine.previews.hosts

    def __call__(self, environ: dict[str, Any], start: Start) -> Answer:
        """Answer a request to the host of a preview."""
        enter_request(environ.get("HTTP_X_REQUEST_ID"))
        request = _Request(environ, str(environ.get("HTTP_HOST") or "").lower())
        try:
            return self._answered(request, start)
        except DatabaseUnavailable as error:
            _log.warning("a request to a preview is not answered: %s", error)
            return _page(request, start, 503, "This service is busy", "", ("Retry-After", "5"))

    def _answered(self, request: _Request, start: Start) -> Answer:
        hosts = self.hosts
        uuid = None if hosts is None else hosts.uuid_of(request.host)
        if hosts is None or uuid is None:
            return _page(request, start, 404, "There is no preview here", "")
        if request.method not in _METHODS:
            return _page(request, start, 501, "Not passed on", f"Previews take no {request.method}.")
        preview = self._service.storage.previews.by_uuid(uuid)
        if request.target.partition("?")[0] == ENTRANCE:
            return self._enter(request, start, preview)
        member = preview is not None and self._is_member(request, preview)
        if preview is None or not (preview.public or member):
            return self._ask_to_enter(request, start, uuid)
        if "HTTP_UPGRADE" in request.environ:
            return _page(request, start, 501, "Not passed on", "Previews pass on no WebSockets.")
        return self._passed_on(request, start, preview, member=member)

    def _ask_to_enter(self, request: _Request, start: Start, uuid: str) -> Answer:
        """Lead to the console, which knows who may enter; one that does not exist is answered the same."""
        if not request.wants_page:
            return _page(request, start, 401, "Sign in", "Open this preview in a browser in which you are signed in.")
        place = f"{self._console_url}/previews/{uuid}?{urlencode({'to': request.target})}"
        return _redirect(start, place)

    def _enter(self, request: _Request, start: Start, preview: Preview | None) -> Answer:
        """Turn the link of a member into a cookie, once."""
        given = parse_qs(urlsplit(request.target).query, max_num_fields=4)
        serving, now = self._service.serving, self._service.clock.now()
        token = given.get("token", [""])[0]
        grant = None if serving is None else serving.signer.open(ENTRY, token)
        if serving is None or preview is None or grant is None or grant[0] != preview.uuid:
            return _page(request, start, 403, "This link does not work", "Open the preview from its job's page again.")
        if not self._once(grant[4], grant[3], now.timestamp()):
            return _page(request, start, 403, "This link has expired", "Open the preview from its job's page again.")
        until = int((now + _LOOK_LIFETIME).timestamp())
        cookie = serving.signer.sign(_LOOK, [preview.uuid, grant[1], grant[2], until])
        seconds = int(_LOOK_LIFETIME.total_seconds())
        kept = f"{_COOKIE}={cookie}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax"
        return _redirect(start, local_target(given.get("to", ["/"])[0]), ("Set-Cookie", kept))

    def _once(self, nonce: str, until: float, now: float) -> bool:
        """Tell whether a link is used for the first time, before it expires."""
        with self._lock:
            self._entered = {each: at for each, at in self._entered.items() if at > now}
            if until <= now or nonce in self._entered:
                return False
            self._entered[nonce] = until
            return True

    def _is_member(self, request: _Request, preview: Preview) -> bool:
        """Tell whether the cookie is of a member, whose session or key is still valid."""
        storage, serving = self._service.storage, self._service.serving
        value = request.own_cookie()
        grant = None if serving is None or not value else serving.signer.open(_LOOK, value)
        if grant is None or grant[0] != preview.uuid or grant[3] <= self._service.clock.now().timestamp():
            return False
        caller = storage.tokens.caller_of(grant[2])
        if caller is None or caller.user.id != grant[1]:
            return False
        return storage.organizations.role(preview.organization_id, caller.user.id) is not None

    def _passed_on(self, request: _Request, start: Start, preview: Preview, *, member: bool) -> Answer:
        """Answer as the program of a preview does."""
        from actors import forks  # noqa: PLC0415 - what makes VMs, which few requests need

        open_ = ExitStack()
        try:
            port = open_.enter_context(self._service.engine.previews.request(preview, _WAKE_SECONDS))
            port_of_vm = port.number
            answer = _Exchange(request, port, port_of_vm)
            answer.begin()
            headers = self._headers(request, preview, answer, port_of_vm)
        except forks.PreviewAsleep:
            open_.close()
            return _page(request, start, 503, "The preview wakes", "It answers in a moment.", ("Refresh", "1"))
        except forks.PreviewGone as error:
            open_.close()
            return _page(request, start, 404, "The preview is gone", f"It has ended: {error}.")
        except forks.PreviewFailed as error:
            open_.close()
            why = str(error) if member else "Members see why on the page of its job."
            return _page(request, start, 503, "The preview does not answer", why, ("Retry-After", "10"))
        except (HTTPException, OSError) as error:
            open_.close()
            why = str(error) or type(error).__name__
            return _page(request, start, 502, "The preview does not answer", why if member else "")
        except BaseException:
            open_.close()
            raise
        start(f"{answer.status} {answer.reason}", headers)
        still = None if preview.public else lambda: self._is_member(request, preview)
        return _Body(answer, open_, self._slots, still)

    def _headers(
        self, request: _Request, preview: Preview, answer: _Exchange, port_of_vm: int
    ) -> list[tuple[str, str]]:
        """Return the headers of an answer that are passed on, and ours."""
        kept = [(name, value) for name, value in answer.headers if _is_passed_on(name.lower())]
        hosts = self.hosts
        for name, value in answer.headers:
            if name.lower() == "location" and hosts is not None:
                kept.append((name, _of_own_host(value, port_of_vm, hosts.address(preview.uuid))))
            elif name.lower() == "set-cookie" and (cookie := _own_cookie(value)) is not None:
                kept.append((name, cookie))
        if not preview.public:
            kept = [each for each in kept if each[0].lower() != "cache-control"]
            kept.append(("Cache-Control", "private, no-cache"))
        kept.append(("X-Robots-Tag", "noindex"))
        return kept


class _Exchange:
    """One request to the program of a preview, and its answer, within bounds."""

    def __init__(self, request: _Request, port: Any, number: int) -> None:  # noqa: ANN401 - a stream of bytes
        self._request = request
        self._bounded = _Bounded(port)
        self._port = port
        self._number = number
        self._response: HTTPResponse | None = None

    def begin(self) -> None:
        """Send the request, and read the head of the answer. Raises HTTPException and OSError."""
        self._port.seconds = _HEAD_SECONDS
        self._port.send(self._head())
        body = self._request.environ["wsgi.input"]
        while chunk := body.read(_CHUNK_BYTES):
            self._port.send(chunk)
        self._response = HTTPResponse(cast("Any", self._bounded), method=self._request.method)
        self._response.begin()
        if not _LOWEST <= self._response.status <= _HIGHEST:
            raise HTTPException(f"it answers with status {self._response.status}")
        self._bounded.end_head()

    @property
    def status(self) -> int:
        """The status."""
        return self._answer.status

    @property
    def reason(self) -> str:
        """The words beside the status."""
        known = {each.value: each.phrase for each in HTTPStatus}
        return known.get(self.status, "Unknown")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers whose names are valid, each value on one line."""
        return [(name, " ".join(value.split())) for name, value in self._answer.getheaders() if _NAME.fullmatch(name)]

    def part(self) -> bytes:
        """Return the next part of the body; empty at the end. Raises HTTPException and OSError."""
        return self._answer.read1(_CHUNK_BYTES)

    @property
    def _answer(self) -> HTTPResponse:
        assert self._response is not None  # noqa: S101 - it has begun
        return self._response

    def _head(self) -> bytes:
        """Return the head of the request: for the program its host is localhost, as where it was written."""
        request, own = self._request, f"localhost:{self._number}"
        lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: {own}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        cookies = "; ".join(f"{name}={value}" for name, value in request.cookies if not name.startswith("__Host-ci-"))
        if cookies:
            lines.append(f"Cookie: {cookies}")
        if origin := request.environ.get("HTTP_ORIGIN"):
            same = urlsplit(str(origin)).netloc.lower() == request.host
            lines.append(f"Origin: {f'http://{own}' if same else origin}")
        lines.append(f"X-Forwarded-Host: {request.host}")
        length = str(request.environ.get("CONTENT_LENGTH") or "")
        if length.isdecimal() and (int(length) or request.method in {"POST", "PUT", "PATCH"}):
            lines.append(f"Content-Length: {length}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class _Bounded(io.RawIOBase):
    """The answer of a program, as a socket for `HTTPResponse`; too much or too late raises OSError."""

    def __init__(self, port: Any) -> None:  # noqa: ANN401 - a stream of bytes
        super().__init__()
        self._port = port
        self._left: int | None = _HEAD_BYTES
        self._until = time.monotonic() + _HEAD_SECONDS

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return itself, buffered."""
        return io.BufferedReader(self)

    def end_head(self) -> None:
        """Bound the body from now on, no longer the head."""
        self._left = None
        self._until = time.monotonic() + _SECONDS

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - what has a buffer
        """Read what has come."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise _TooLong("its answer takes too long")
        self._port.seconds = min(left, _PART_SECONDS)
        size: int = self._port.readinto(buffer)
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise _TooLong("the head of its answer is too long")
        return size


class _Body:
    """The body of an answer. Closes its connection when the server is done with it."""

    def __init__(
        self, answer: _Exchange, opened: ExitStack, slots: StreamSlots, still: Callable[[], bool] | None
    ) -> None:
        """``still`` tells whether who asked still may see it; None if all may."""
        self._answer = answer
        self._opened = opened
        self._slots = slots
        self._still = still

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts. What cannot be read to its end is cut, and the client sees that."""
        checked = time.monotonic()
        while part := self._answer.part():
            yield part
            time.sleep(len(part) / _BYTES_PER_SECOND)
            now = time.monotonic()
            if self._slots.closing:
                raise _TooLong("the service stops")
            if self._still is not None and now - checked >= _CHECK_SECONDS:
                checked = now
                if not self._still():
                    raise _TooLong("who asked may not see it any more")

    def close(self) -> None:
        """Hang up."""
        self._opened.close()


def _page(
    request: _Request, start: Start, status: int, title: str, text: str, *headers: tuple[str, str]
) -> list[bytes]:
    """Answer with a page of ours, which runs nothing."""
    lines = "".join(f"<pre>{html.escape(text)}</pre>" if text else "")
    body = _PAGE.format(title=html.escape(title), text=lines).encode()
    start(
        f"{status} {HTTPStatus(status).phrase}",
        [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
            ("Cache-Control", "no-store"),
            ("X-Robots-Tag", "noindex"),
            ("X-Content-Type-Options", "nosniff"),
            *headers,
        ],
    )
    return [] if request.method == "HEAD" else [body]


def _redirect(start: Start, place: str, *headers: tuple[str, str]) -> list[bytes]:
    start(
        "302 Found",
        [
            ("Location", place),
            ("Content-Type", "text/plain"),
            ("Content-Length", "0"),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            *headers,
        ],
    )
    return []


def _of_own_host(location: str, port_of_vm: int, address: str) -> str:
    """Return where an answer leads: an address of the program itself is one of its preview."""
    parts = urlsplit(location)
    if parts.scheme in {"http", "https"} and parts.netloc.lower() in {
        f"localhost:{port_of_vm}",
        f"127.0.0.1:{port_of_vm}",
    }:
        return f"{address}{location.partition(parts.netloc)[2]}"
    return location


def _is_passed_on(header: str) -> bool:
    return header not in _NOT_ANSWERED and not header.startswith(_OF_PROXIES)


def _own_cookie(value: str) -> str | None:
    """Return a cookie for the preview's host alone; None for one that is not passed on."""
    name, *attributes = value.split(";")
    if name.strip().startswith("__Host-ci-"):
        return None
    # Browsers strip the name of an attribute on both sides.
    kept = [each for each in attributes if each.partition("=")[0].strip().lower() != "domain"]
    return ";".join([name, *kept])
