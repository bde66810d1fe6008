"""Requests to a service, and its refusals as exceptions."""

from __future__ import annotations

import json
import ssl
from contextlib import contextmanager
from http import HTTPStatus
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import httpx

from ci_daemon.remote.destination import is_this_host
from ci_daemon.remote.errors import RequestFailed, ServiceUnreachable
from storage import error_reason, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import storage
    from api.operations import Download, Operation

T = TypeVar("T")
R = TypeVar("R")

_TIMEOUT = 30.0
_CONNECT_TIMEOUT = 10.0
_PAGE_SIZE = "100"
_BLOCK = 64 * 1024
_NOUNS: Mapping[str, str] = MappingProxyType({"org": "organization"})
_NO_QUERY: Mapping[str, str] = MappingProxyType({})


class Connection:
    """Calls the service at ``url`` as the owner of ``token``, or as nobody without one.

    Thread-safe. All methods raise RequestFailed if the service refuses, and ServiceUnreachable.
    """

    owners = False

    def __init__(self, url: str, token: str | None, *, seconds: float = _TIMEOUT) -> None:
        self.url = url.rstrip("/")
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._seconds = seconds
        self._http = httpx.Client(
            base_url=self.url,
            headers={**authorization, "User-Agent": f"ci-daemon/{version('ci-daemon')}"},
            # Requests to this machine bypass the environment's proxy.
            trust_env=not is_this_host(url),
        )

    def perform(
        self,
        operation: Operation[R],
        names: Mapping[str, str],
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float | None = None,
        sent: Callable[[float], None] | None = None,
    ) -> R:
        """Perform an operation on the things that ``names`` gives the path.

        ``sent`` gets the share of a large body that is on its way, up to 1.
        """
        response = self._request(
            operation.method, filled(operation.path, names), body, query, seconds or self._seconds, sent
        )
        with self._answering(response):
            answer: Any = None if operation.record is None else record_of(operation.record, response.json())
        result: R = answer
        return result

    def rows(
        self,
        operation: Operation[storage.Page[Any]] | Operation[list[Any]],
        names: Mapping[str, str],
        query: Mapping[str, str] = _NO_QUERY,
    ) -> Iterator[Any]:
        """Yield the rows of a list, page by page."""
        query = {**query} if operation.whole else {**query, "limit": _PAGE_SIZE}
        key = operation.whole.key if operation.whole else "data"
        while True:
            response = self._request(operation.method, filled(operation.path, names), query=query)
            with self._answering(response):
                page = response.json()
                rows, cursor = [record_of(operation.record, each) for each in page[key]], page.get("next_cursor")
            yield from rows
            if cursor is None:
                return
            query = {**query, "cursor": cursor}

    @contextmanager
    def stream(
        self, path: str, names: Mapping[str, str], start: int = 0, wait: int = 0
    ) -> Iterator[tuple[Iterator[bytes], httpx.Headers]]:
        """Open an answer of bytes from byte ``start`` on, waiting up to ``wait`` seconds for a first byte.

        Yields an iterator of chunks as they arrive, and the headers. If there is nothing after ``start``, no chunk
        comes.
        """
        with self._opened(filled(path, names), start, wait, {"wait": str(wait)}) as opened:
            yield opened

    @contextmanager
    def download(
        self, operation: Operation[Download], names: Mapping[str, str], start: int
    ) -> Iterator[Iterator[bytes]]:
        """Open a file from byte ``start`` on: its chunks as they arrive."""
        with self._opened(filled(operation.path, names), start) as (chunks, _):
            yield chunks

    @contextmanager
    def take(
        self, operation: Operation[Download], names: Mapping[str, str], body: object
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Ask for a file to be made: a name for it, without a folder, and its chunks as they arrive."""
        request = self._http.build_request(
            operation.method,
            filled(operation.path, names),
            json=body,
            headers={"Accept-Encoding": "identity"},
            timeout=_timeout(self._seconds),
        )
        response = self._send(request, stream=True)
        try:
            self._raise_for_error(response)
            yield _name_in(response.headers.get("Content-Disposition", "")), response.iter_bytes()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    @contextmanager
    def events(self, path: str, names: Mapping[str, str], last: str) -> Iterator[Iterator[tuple[str, str, str]]]:
        """Open a stream of events after the one with the id ``last``: name, id and data of each."""
        headers = {"Accept-Encoding": "identity"} | ({"Last-Event-ID": last} if last else {})
        request = self._http.build_request("GET", filled(path, names), headers=headers, timeout=_timeout(_TIMEOUT))
        response = self._send(request, stream=True)
        try:
            self._raise_for_error(response)
            yield _events(response.iter_lines())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    @contextmanager
    def _opened(
        self, path: str, start: int, wait: int = 0, query: Mapping[str, str] | None = None
    ) -> Iterator[tuple[Iterator[bytes], httpx.Headers]]:
        request = self._http.build_request(
            "GET",
            path,
            params=query,
            headers={"Range": f"bytes={start}-", "Accept-Encoding": "identity"},
            timeout=_timeout(wait + _TIMEOUT),
        )
        response = self._send(request, stream=True)
        try:
            if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                yield iter(()), response.headers
            else:
                self._raise_for_error(response)
                yield response.iter_bytes(), response.headers
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        seconds: float = _TIMEOUT,
        sent: Callable[[float], None] | None = None,
    ) -> httpx.Response:
        """Send a request and return its answer, which is a success."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"Content-Type": "application/json", "Content-Length": str(len(content))}
        request = self._http.build_request(
            method,
            path,
            content=content if content is None or sent is None else _blocks(content, sent),
            headers=headers,
            params=query,
            timeout=_timeout(seconds),
        )
        response = self._send(request)
        self._raise_for_error(response)
        return response

    @contextmanager
    def _answering(self, response: httpx.Response) -> Iterator[None]:
        """Take a fault in the answer for that of another program."""
        try:
            yield
        except (ValueError, LookupError, TypeError) as error:
            raise self._not_a_service(response) from error

    def _send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        try:
            return self._http.send(request, stream=stream)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServiceUnreachable:
        if (untrusted := _cause(error, ssl.SSLCertVerificationError)) is not None:
            return ServiceUnreachable(
                f"the certificate of {self.url} is not valid here ({untrusted.verify_message}): check the URL, or set"
                " SSL_CERT_FILE to the certificate of its authority"
            )
        return ServiceUnreachable(
            f"no service answers at {self.url} ({error_reason(error)}): start the service, or set CI_DAEMON_URL to"
            " where it runs"
        )

    def _raise_for_error(self, response: httpx.Response) -> None:
        """Raise RequestFailed with the service's message if the response is not a success."""
        if response.is_success:
            return
        if response.has_redirect_location:
            target = response.headers["Location"]
            message = f"{self.url} redirects to {target!r}: sign in with the URL of the service itself"
            raise RequestFailed(response.status_code, "unknown", message)
        response.read()
        try:
            error = response.json()["error"]
            code, message = str(error["code"]), str(error["message"])
        except (ValueError, LookupError, TypeError):
            raise self._not_a_service(response) from None
        if code in {"route_not_found", "method_not_allowed"}:
            message = f"the service at {self.url} cannot do this: check the URL, or upgrade it if this command is newer"
        elif code == "rate_limited" and (seconds := response.headers.get("Retry-After", "")).isdecimal():
            message = f"{message}: try again in {seconds} s"
        raise RequestFailed(response.status_code, code, message)

    def _not_a_service(self, response: httpx.Response) -> RequestFailed:
        message = f"the answer of {self.url} is not that of a ci-daemon (status {response.status_code}): check the URL"
        return RequestFailed(response.status_code, "unknown", message)


def filled(path: str, names: Mapping[str, str]) -> str:
    """Return a path with names in the place of its parameters; none of them reaches beyond its own part.

    Raises RequestFailed if a name cannot be one.
    """
    for parameter, value in names.items():
        if "/" in value:
            noun = _NOUNS.get(parameter, parameter)
            raise RequestFailed(HTTPStatus.NOT_FOUND, "not_found", f'there is no {noun} "{value}"')
    return path.format_map({name: quote(value, safe="").replace(".", "%2E") for name, value in names.items()})


def _name_in(disposition: str) -> str:
    """Return the name of an attachment, without a folder."""
    name = unquote(disposition.partition("filename*=UTF-8''")[2]).rpartition("/")[2]
    return name if name.isprintable() and name not in {"", ".", ".."} else "file"


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, id and data of each event of a stream; the id is empty if it has none."""
    name = number = data = ""
    for line in lines:
        field, _, value = line.partition(": ")
        match field:
            case "event":
                name = value
            case "id":
                number = value
            case "data":
                data = value
            case "" if name and not line:
                yield name, number, data
                name = number = data = ""


def _blocks(content: bytes, sent: Callable[[float], None]) -> Iterator[bytes]:
    """Yield a body block by block, and tell after each how much of it was taken."""
    for start in range(0, len(content), _BLOCK):
        yield content[start : start + _BLOCK]
        sent(min(1.0, (start + _BLOCK) / len(content)))


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=_CONNECT_TIMEOUT)


def _cause(error: BaseException | None, kind: type[T]) -> T | None:
    """Return the error of a kind that caused another error, None if there was none."""
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None
