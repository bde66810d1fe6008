"""HTTP to identity providers, bounded in time and size: a provider may be away, slow or hostile."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
import pydantic_core

from actors import Deadline, TimedBackend
from api.sign_in.providers.person import ProviderError
from storage import error_reason

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

__all__ = ["ProviderConnection", "ProviderHttp"]

_TOO_LATE = "the provider does not answer in time"
_MOST_BYTES = 512 * 2**10
_HEADERS = {"User-Agent": "ci-daemon", "Accept": "application/json", "Accept-Encoding": "identity"}


class ProviderHttp:
    """Opens connections to providers. Safe in any thread."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def connection(self) -> ProviderConnection:
        """Return a connection for one sign-in."""
        return ProviderConnection(Deadline(self._timeout, lambda: ProviderError(_TOO_LATE)), self._ssl_context)

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """The authorities that are trusted: the usual ones, or those that ``SSL_CERT_FILE`` names."""
        return httpx.create_ssl_context()


class ProviderConnection:
    """The requests of one sign-in, with one deadline.

    Redirects are not followed, and the proxies of the environment not used.
    """

    def __init__(self, deadline: Deadline, ssl_context: ssl.SSLContext) -> None:
        self.deadline = deadline
        self.session = httpx.Client(transport=_Transport(deadline, ssl_context), headers=_HEADERS, trust_env=False)

    def get_json(self, url: str, bearer: str | None = None) -> object:
        """Return the JSON document at a URL. Raises ProviderError."""
        response = self.session.get(url, headers={"Authorization": f"Bearer {bearer}"} if bearer else None)
        if response.status_code != httpx.codes.OK:
            raise ProviderError(f"{url} answers {response.status_code}")
        try:
            return pydantic_core.from_json(response.content, allow_inf_nan=False)
        except ValueError:
            raise ProviderError(f"{url} answers something that is not JSON") from None

    def get_object(self, url: str, bearer: str | None = None) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises ProviderError."""
        document = self.get_json(url, bearer)
        if not isinstance(document, dict):
            raise ProviderError(f"{url} answers something that is not a JSON object")
        return document


class _Transport(httpx.BaseTransport):
    """Sends each request over a connection of its own, and reads the whole response."""

    def __init__(self, deadline: Deadline, ssl_context: ssl.SSLContext) -> None:
        self._backend = TimedBackend(deadline)
        self._ssl_context = ssl_context

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raw = request.url
        url = httpcore.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
        where = f"{raw.scheme}://{raw.host}"
        try:
            with (
                httpcore.ConnectionPool(ssl_context=self._ssl_context, network_backend=self._backend) as pool,
                pool.stream(request.method, url, headers=request.headers.raw, content=request.read()) as response,
            ):
                content = _whole(response.iter_stream(), where)
        except httpcore.TimeoutException:
            raise ProviderError(_TOO_LATE) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, UnicodeError) as error:
            raise ProviderError(f"{where} cannot be reached: {error_reason(error)}") from None
        headers = httpx.Headers(response.headers)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise ProviderError(f"{where} answers in an encoding that was not asked for")
        return httpx.Response(response.status, headers=headers, content=content, request=request)


def _whole(chunks: Iterable[bytes], where: str) -> bytes:
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > _MOST_BYTES:
            raise ProviderError(f"{where} answers more than {_MOST_BYTES} bytes")
    return bytes(content)
