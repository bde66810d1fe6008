"""The engine's REST API over TLS or a unix socket, by any member that answers.

Incus 6 and LXD 5 share it. Changes are asynchronous: the answer names an operation, whose end is waited for.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx

from actors.vms.incus.refusals import EngineAway, EngineError, NotFound, NotTrusted, refusal
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from actors.vms.settings import IncusSettings


_CONNECT_SECONDS = 3.0
_DIAL_SECONDS = 10.0
_UNACKNOWLEDGED_MS = 60_000
_PORT = 443
_ANSWER_SECONDS = 30.0
_OPERATION_SECONDS = 120.0
_WAIT_SECONDS = 20
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: a certificate is known, and its member's clock may differ."""

_SUCCESS = 200
_RUNNING = 200
_SAFE = frozenset({"GET", "HEAD"})
"""Methods that may be sent again to another member when an answer does not come."""


@immutable
class Access:
    """The way to an engine: the addresses of members with the certificates, or a socket on this host."""

    addresses: tuple[str, ...]
    socket: Path
    certificate: Path
    key: Path
    server_certificate: Path

    @property
    def over_tls(self) -> bool:
        """True if members are reached over the network."""
        return bool(self.addresses)

    def tls(self) -> ssl.SSLContext:
        """Return a context that accepts the members' own certificate alone. Raises EngineError."""
        try:
            context = ssl.create_default_context(cafile=str(self.server_certificate))
            context.check_hostname = False  # the certificate is the engine's own: it names no address
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            message = f"the certificates for the engine cannot be read ({error_reason(error)}): see docs/fleet.md"
            raise EngineError(message) from error
        return context


def access_of(folder: Path, settings: IncusSettings) -> Access:
    """Return the way to the engine; the certificates are in ``folder`` unless the settings name others."""
    return Access(
        settings.addresses,
        settings.socket,
        settings.certificate or folder / "client.crt",
        settings.key or folder / "client.key",
        settings.server_certificate or folder / "server.crt",
    )


class Engine:
    """A client of one project of an engine. Safe in any thread.

    A member that does not answer is left for the next one; a request that may have been carried out is not repeated.
    """

    def __init__(self, access: Access, project: str) -> None:
        self.access = access
        self.project = project
        self.tls = access.tls() if access.over_tls else None
        self._places = access.addresses or (str(access.socket),)
        self._clients = [self._client(address) for address in access.addresses or ("http://engine",)]
        self._first = 0
        self._homes: dict[str, str] = {}
        self._sessions: dict[str | None, ssl.SSLSession | None] = {}

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def get(self, path: str, query: Mapping[str, str | int] | None = None, *, seconds: float = _ANSWER_SECONDS) -> Any:  # noqa: ANN401 - JSON
        """Return what is at a path. Raises NotFound, EngineError and EngineAway."""
        return self._ask("GET", path, query, seconds)["metadata"]

    def get_at_home(self, member: str | None, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what is at a path for which only the member itself has the answer.

        ``member`` is None without a cluster. Raises as `get` does.
        """
        if member is None:
            return self.get(path)
        home = self.home(member)
        if home is None:
            message = f"incus.addresses lacks the address of the member {member}, which alone knows {path}: add it"
            raise EngineError(message)
        numbers = [self.access.addresses.index(home)]
        return self._ask("GET", path, None, _ANSWER_SECONDS, numbers)["metadata"]

    def do(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
        *,
        seconds: float = _OPERATION_SECONDS,
    ) -> Any:  # noqa: ANN401 - JSON
        """Carry out a change, wait for its end and return what the engine says of it.

        Raises as `get` does, also EngineError if it takes longer than so many ``seconds``.
        """
        return self.done(self.begin(method, path, body, query), seconds)

    def begin(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any]:
        """Begin a change; return the engine's answer, which may be an operation. Raises as `get` does."""
        return self._ask(method, path, query, _ANSWER_SECONDS, json=body)

    def upload(self, path: str, content: Iterable[bytes], seconds: float) -> Any:  # noqa: ANN401 - JSON
        """Send a file, wait until the engine has taken it in, and return what it says.

        Raises as `get` does.
        """
        headers = {"Content-Type": "application/octet-stream"}
        return self.done(self._ask("POST", path, None, seconds, content=content, headers=headers), seconds)

    @contextmanager
    def download(self, path: str, seconds: float) -> Iterator[Iterator[bytes]]:
        """Give the content of a file in blocks, from the member that answered last. Raises as `get` does.

        Nothing comes for at most so many ``seconds``.
        """
        client, timeout = self._clients[self._first], httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        try:
            with client.stream("GET", path, params={"project": self.project}, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    _checked(answer)
                yield answer.iter_bytes()
        except httpx.TransportError as error:
            message = f"the engine did not send all of {path}: {error_reason(error)}"
            raise EngineAway(message) from error

    def done(self, answer: Mapping[str, Any], seconds: float) -> Any:  # noqa: ANN401 - JSON
        """Wait for the end of the operation that an answer names, if it does; return its metadata."""
        if answer["type"] != "async":
            return answer["metadata"]
        operation, end = operation_of(answer), time.monotonic() + seconds
        while True:
            left = max(1, min(_WAIT_SECONDS, int(end - time.monotonic())))
            status = self._awaited(operation, left)
            if status["status_code"] == _SUCCESS:
                return status["metadata"]
            if status["status_code"] > _RUNNING:
                raise refusal(status["err"] or status["status"], status["status_code"])
            if time.monotonic() >= end:
                message = f"the engine did not complete {status['description']!r} within {seconds:g} s"
                raise EngineError(message)

    def exists(self, path: str) -> bool:
        """Tell whether there is anything at a path."""
        try:
            self.get(path)
        except NotFound:
            return False
        return True

    @property
    def address(self) -> str:
        """The address of the member that answered last."""
        return str(self._clients[self._first].base_url)

    def home(self, member: str) -> str | None:
        """Return the address of a member, if it is one by which the engine is reached.

        Raises as `get` does.
        """
        if member not in self._homes:
            self._homes[member] = self.get(f"/1.0/cluster/members/{part(member)}")["url"]
        home = self._homes[member]
        return home if home in self.access.addresses else None

    def dial(self, address: str) -> socket.socket:
        """Open a connection to a member for other uses than requests. Raises OSError."""
        with ExitStack() as undo:
            if self.tls is None:
                connected = socket.socket(socket.AF_UNIX)
                undo.callback(connected.close)
                connected.settimeout(_DIAL_SECONDS)
                connected.connect(str(self.access.socket))
            else:
                found = urlsplit(address)
                connected = socket.create_connection((found.hostname, found.port or _PORT), _CONNECT_SECONDS)
                undo.callback(connected.close)
                connected.settimeout(_DIAL_SECONDS)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
                session = self._sessions.get(found.hostname)
                connected = self.tls.wrap_socket(connected, server_hostname=found.hostname, session=session)
            undo.pop_all()
        return connected

    def keep_session(self, connected: socket.socket) -> None:
        """Keep the TLS session of a connection that has received: the next open in a third of the time."""
        if isinstance(connected, ssl.SSLSocket):
            self._sessions[connected.server_hostname] = connected.session

    def _awaited(self, operation: str, seconds: int) -> dict[str, Any]:
        """Return the state of an operation at its end, or after so many ``seconds``. Raises as `get` does."""
        state: dict[str, Any]
        try:
            state = self.get(f"{operation}/wait", {"timeout": seconds}, seconds=seconds + _ANSWER_SECONDS)
        except EngineAway as away:  # which is what Incus answers, too, if the operation still runs then
            try:
                state = self.get(operation)
            except NotFound:
                raise away from None
        return state

    def _client(self, address: str) -> httpx.Client:
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
        transport = (
            httpx.HTTPTransport(verify=self.tls, limits=limits)
            if self.tls
            else httpx.HTTPTransport(uds=str(self.access.socket), limits=limits)
        )
        return httpx.Client(transport=transport, base_url=address, timeout=timeout, trust_env=False)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        seconds: float,
        numbers: Sequence[int] | None = None,
        **sent: Any,  # noqa: ANN401 - httpx's own
    ) -> dict[str, Any]:
        """Send a request to the first member that takes it, of all or of some; return its answer."""
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        params = {"project": self.project, **(query or {})}
        failed: list[str] = []
        for number in self._in_turn() if numbers is None else numbers:
            client = self._clients[number]
            try:
                answer = client.request(method, path, params=params, timeout=timeout, **sent)
                self._first = number
                if answer.status_code == HTTPStatus.FORBIDDEN:
                    self._check_trusted(client)
                return _checked(answer)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed.append(f"{self._places[number]}: {error_reason(error)}")
            except httpx.TransportError as error:
                failed.append(f"{self._places[number]}: {error_reason(error)}")
                if method not in _SAFE:
                    break
        message = f"the engine does not answer ({'; '.join(failed)}): is it running?"
        raise EngineAway(message)

    def _check_trusted(self, client: httpx.Client) -> None:
        """Raise NotTrusted if the members do not know this caller, to whom they forbid nearly everything."""
        if _checked(client.get("/1.0"))["metadata"]["auth"] != "trusted":
            message = (
                f"the engine does not trust the certificate {self.access.certificate}: has it expired, was it"
                " removed, or is a member's clock wrong? Run `ci-daemon incus setup`, and restart the service"
            )
            raise NotTrusted(message)

    def _in_turn(self) -> list[int]:
        """Return the numbers of the members, from the one that answered last."""
        count = len(self._clients)
        return [(self._first + offset) % count for offset in range(count)]


def operation_of(answer: Mapping[str, Any]) -> str:
    """Return the path of the operation that an answer names."""
    return str(answer["operation"]).partition("?")[0]


def part(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")


def _checked(answer: httpx.Response) -> dict[str, Any]:
    try:
        content: dict[str, Any] = answer.json()
    except ValueError as error:
        message = f"what answers at {answer.url.copy_with(query=None)} is no engine: HTTP {answer.status_code}"
        raise EngineError(message) from error
    if content["type"] == "error":
        raise refusal(content["error"], content["error_code"])
    return content
