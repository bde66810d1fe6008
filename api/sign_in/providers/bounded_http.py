"""HTTP to identity providers, which may be away, slow or hostile: bounds of time, size, addresses."""

from __future__ import annotations

import socket
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
import pydantic_core

from actors import Deadline, TimedBackend, is_public, is_within
from api.sign_in.providers.provider import ProviderError
from storage import error_reason

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Iterable
    from ipaddress import IPv4Network, IPv6Network

_TOO_LATE = "the provider does not answer in time"
_MOST_BYTES = 512 * 2**10
_HEADERS = {"User-Agent": "ci-daemon", "Accept": "application/json", "Accept-Encoding": "identity"}


class ProviderHttp:
    """Opens connections to providers. Safe in any thread.

    The hosts that the owner ``named`` may have any address. Other hosts, which an issuer names as its endpoints, must
    be public or in one of the owner's ``networks``: else it could send the service to its own loopback and
    surroundings.
    """

    def __init__(
        self, timeout: float, named: Collection[str], networks: Collection[IPv4Network | IPv6Network] = ()
    ) -> None:
        self._timeout = timeout
        self._named = {each.lower() for each in named}
        self._networks = networks

    def connection(self) -> ProviderConnection:
        """Return a connection for one sign-in."""
        deadline = Deadline(self._timeout, lambda: ProviderError(_TOO_LATE))
        return ProviderConnection(deadline, lambda: self._ssl_context, self._addresses)

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be connected to. Raises ProviderError if there are none."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ProviderError(f"{host} is not found: {error_reason(error)}") from None
        anywhere = host.lower() in self._named
        addresses = dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found)
        allowed = [each for each in addresses if anywhere or is_public(each) or is_within(each, self._networks)]
        if not allowed:
            raise ProviderError(
                f"{host}, which the provider names, has no public address: the owner may allow its network in"
                " identity.networks"
            )
        return [str(each) for each in allowed]

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """The authorities that are trusted: the usual ones, or those that ``SSL_CERT_FILE`` names.

        They take a tenth of a second to read.
        """
        return httpx.create_ssl_context()


class ProviderConnection:
    """The requests of one sign-in, with one deadline.

    Redirects are not followed, and the proxies of the environment not used.
    """

    def __init__(
        self, deadline: Deadline, ssl_context: Callable[[], ssl.SSLContext], resolve: Callable[[str, int], list[str]]
    ) -> None:
        self.deadline = deadline
        transport = _Transport(TimedBackend(deadline, resolve), ssl_context)
        self.session = httpx.Client(transport=transport, headers=_HEADERS, trust_env=False)

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

    def __init__(self, backend: TimedBackend, ssl_context: Callable[[], ssl.SSLContext]) -> None:
        self._backend = backend
        self._ssl_context = ssl_context

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raw = request.url
        url = httpcore.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
        where = f"{raw.scheme}://{raw.host}"
        context = self._ssl_context() if raw.scheme == "https" else None
        try:
            with (
                httpcore.ConnectionPool(ssl_context=context, network_backend=self._backend) as pool,
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
