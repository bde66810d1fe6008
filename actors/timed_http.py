"""HTTP requests that are bounded in time and size: all waits of one end by one deadline.

By itself, each byte would begin the wait anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore

from storage import error_reason, immutable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping, Sequence

_THIS_HOST = {"localhost", "127.0.0.1", "::1"}
_HEADERS = {"User-Agent": "ci-daemon", "Accept": "application/json", "Accept-Encoding": "identity"}


class Deadline:
    """One deadline for all waits together."""

    def __init__(self, seconds: float, error: Callable[[], Exception] = httpcore.ReadTimeout) -> None:
        """Begin now; ``error`` makes what is raised when the time is up."""
        self._end = time.monotonic() + seconds
        self._error = error

    def left(self) -> float:
        """Return the seconds that are left. Raises the deadline's error if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._error()
        return left


class TimedBackend(httpcore.NetworkBackend):
    """Connects to the first address of a host that answers, and reads and writes before the deadline."""

    def __init__(
        self, deadline: Deadline, resolve: Callable[[str, int], Sequence[str]] = lambda host, _: (host,)
    ) -> None:
        """Store the deadline; ``resolve`` returns the addresses of a host and port, at least one."""
        self._deadline = deadline
        self._resolve = resolve
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect; the time-out of the single wait is not used."""
        *others, last = self._resolve(host, port)
        for address in others:
            try:
                return self._connect(address, port, local_address, socket_options)
            except httpcore.ConnectError:
                continue
        return self._connect(last, port, local_address, socket_options)

    def _connect(
        self, address: str, port: int, local_address: str | None, socket_options: Iterable[Any] | None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left()
        return _Stream(self._sockets.connect_tcp(address, port, left, local_address, socket_options), self._deadline)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left())
        return _Stream(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        return self._stream.get_extra_info(info)


class NoAnswer(Exception):
    """A server gave no answer, or too long a one.

    The message continues a sentence that begins with the server's name.
    """


@immutable
class Answer:
    """The answer to a request; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def ok(self) -> bool:
        """True if the server did what it was asked for."""
        return self.status in range(200, 300)


def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    backend: TimedBackend,
    ssl_context: Callable[[], ssl.SSLContext],
    most_bytes: int,
    proxy: httpcore.Proxy | None = None,
) -> Answer:
    """Send a request over a connection of its own, or through a proxy, and return the whole answer.

    Redirects are not followed, so a credential goes nowhere else. ``ssl_context`` is called if the URL needs
    encryption. Raises NoAnswer, and what the backend raises.
    """
    sent = {**_HEADERS, **headers}
    if body or method == "POST":
        sent["Content-Length"] = str(len(body))
    content = bytearray()
    try:
        context = ssl_context() if urlsplit(url).scheme == "https" else None
        with (
            httpcore.ConnectionPool(context, proxy, network_backend=backend) as pool,
            pool.stream(method, url, headers=list(sent.items()), content=body) as response,
        ):
            for chunk in response.iter_stream():
                content += chunk
                if len(content) > most_bytes:
                    raise NoAnswer(f"answers more than {most_bytes} bytes")
            answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            return Answer(response.status, answered, bytes(content))
    except httpcore.TimeoutException:
        raise NoAnswer("does not answer in time") from None
    except httpcore.ProxyError as error:
        raise NoAnswer(f"cannot be reached through the proxy of the environment: {error}") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
        raise NoAnswer(f"cannot be reached: {error_reason(error)}") from None


def proxy_to(url: str) -> httpcore.Proxy | None:
    """Return the proxy that the environment names for a URL, such as by ``HTTPS_PROXY``; None without one.

    For hosts that the owner alone chooses: a proxy reaches what the service itself must not.
    """
    wanted = urlsplit(url)
    host, named = wanted.hostname or "", getproxies().get(wanted.scheme)
    if not named or host in _THIS_HOST or proxy_bypass(host):
        return None
    found = urlsplit(named if "://" in named else f"http://{named}")
    auth = None if found.username is None else (unquote(found.username), unquote(found.password or ""))
    return httpcore.Proxy(found._replace(netloc=found.netloc.rpartition("@")[2]).geturl(), auth)
