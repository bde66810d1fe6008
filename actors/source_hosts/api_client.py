"""Requests to the APIs of source hosts: bounded in time and size, and to addresses that are allowed."""

from __future__ import annotations

import json
import socket
import ssl
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, TypeAdapter, ValidationError

from actors.source_hosts.host import HostError
from actors.timed_http import Answer, Deadline, NoAnswer, TimedBackend, exchange
from actors.vms.public_addresses import is_public, is_within
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from storage import Clock

_TIMEOUT = 20.0
_MOST_BYTES = 4 * 2**20
_SHOWN = 200
_LONGEST_PAUSE = 3600.0
_PAUSE = 60.0
_TOO_MANY = 429

Model = TypeVar("Model", bound=BaseModel)
Content = TypeVar("Content")


class HostRefused(HostError):
    """The host answered with an error; ``status`` is that of HTTP."""

    def __init__(
        self, message: str, status: int, *, retry_after: float | None = None, final: bool = False, detail: str = ""
    ) -> None:
        super().__init__(message, retry_after=retry_after, final=final)
        self.status = status
        self.detail = detail


class HostNetwork:
    """The addresses that may be asked, and the authorities that are trusted. Safe in any thread."""

    def __init__(self, networks: tuple[IPv4Network | IPv6Network, ...], authorities: Path | None, clock: Clock) -> None:
        """Allow public addresses and these networks; trust the authorities of a file, or those of the host."""
        self._networks = networks
        self._authorities = authorities
        self._clock = clock

    def api(
        self, root: str, headers: Mapping[str, str], *, anywhere: bool = False, deadline: Deadline | None = None
    ) -> HostApi:
        """Return the API below a URL; ``anywhere`` if the owner of this service chose it.

        Its requests share the deadline; without one, each has its own.
        """
        return HostApi(self, root, headers, anywhere, deadline)

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        """The authorities that are trusted, which are those of git, too."""
        return ssl.create_default_context(cafile=self._authorities)

    def addresses(self, host: str, port: int, *, anywhere: bool) -> list[str]:
        """Return the addresses of a host that may be connected to. Raises HostError if there are none."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise HostError(f"{host} is not found: {error_reason(error)}") from None
        addresses = dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found)
        allowed = [each for each in addresses if anywhere or is_public(each) or is_within(each, self._networks)]
        if not allowed:
            raise HostError(
                f"{host} has no public address: the owner of the service may connect it, or allow its network in"
                " repositories.networks",
                final=True,
            )
        return [str(each) for each in allowed]

    def pause(self, headers: Mapping[str, str]) -> float | None:
        """Return the seconds that a host asks to wait: `Retry-After`, in seconds or as a date."""
        given = headers.get("retry-after", "")
        if given.isascii() and given.isdigit():
            return min(float(given[:6]), _LONGEST_PAUSE)
        try:
            seconds = (parsedate_to_datetime(given) - self._now(headers)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
        return min(max(seconds, 1.0), _LONGEST_PAUSE)

    def _now(self, headers: Mapping[str, str]) -> datetime:
        """Return the time of an answer by the clock of its host, which may not be that of this one."""
        try:
            return parsedate_to_datetime(headers.get("date", ""))
        except ValueError:
            return self._clock.now()


@immutable
class HostApi:
    """The API below one URL, with the credential in its headers. It blocks. Safe in any thread.

    Each request has a connection of its own to an address that was checked. Redirects are not followed, so a
    credential goes nowhere else, and the proxies of the environment are not used.
    """

    network: HostNetwork
    root: str
    headers: Mapping[str, str]
    anywhere: bool
    deadline: Deadline | None

    def __repr__(self) -> str:
        return f"HostApi({self.root!r})"

    def get(self, path: str, model: type[Model], **query: str | int) -> Model:
        """Return the object at a path. Raises HostError."""
        return self._read(TypeAdapter(model), self.send("GET", _with_query(path, query)))

    def find(self, path: str, model: type[Model]) -> Model | None:
        """Return the object at a path; None if there is none. Raises HostError."""
        try:
            return self.get(path, model)
        except HostRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def get_list(self, path: str, model: type[Model], **query: str | int) -> list[Model]:
        """Return the objects at a path. Raises HostError."""
        lists: TypeAdapter[list[Model]] = TypeAdapter(list[model])  # type: ignore[valid-type] # known at run time only
        return self._read(lists, self.send("GET", _with_query(path, query)))

    def post(self, path: str, body: Mapping[str, object]) -> bytes:
        """Post JSON; return the answer. Raises HostError."""
        return self.send("POST", path, json.dumps(body).encode(), "application/json")

    def post_form(self, path: str, form: Mapping[str, str], model: type[Model]) -> Model:
        """Post a form; return the object that is answered. Raises HostError."""
        sent = self.send("POST", path, urlencode(form).encode(), "application/x-www-form-urlencoded")
        return self._read(TypeAdapter(model), sent)

    def delete(self, path: str) -> None:
        """Delete what is at a path; it is no error if it is gone. Raises HostError."""
        try:
            self.send("DELETE", path)
        except HostRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def send(self, method: str, path: str, body: bytes = b"", media_type: str | None = None) -> bytes:
        """Send a request; return the body of the answer.

        Raises HostError, and HostRefused for an error status.
        """
        headers = {**self.headers} | ({"Content-Type": media_type} if media_type else {})
        backend = TimedBackend(self.deadline or Deadline(_TIMEOUT), self._resolve)
        try:
            answer = exchange(
                method, self.root + path, headers, body,
                backend=backend, ssl_context=lambda: self.network.ssl_context, most_bytes=_MOST_BYTES,
            )  # fmt: skip
        except NoAnswer as error:
            raise HostError(f"{self._host} {error}") from None
        if not answer.ok:
            raise self._refusal(answer)
        return answer.content

    def _resolve(self, host: str, port: int) -> list[str]:
        return self.network.addresses(host, port, anywhere=self.anywhere)

    @property
    def _host(self) -> str:
        return urlsplit(self.root).netloc

    def _read(self, adapter: TypeAdapter[Content], content: bytes) -> Content:
        try:
            return adapter.validate_json(content)
        except ValidationError:
            raise HostError(f"{self._host} answers something that its API does not") from None

    def _refusal(self, answer: Answer) -> HostRefused:
        status = answer.status
        text = answer.content[: 4 * _SHOWN].decode(errors="replace")
        detail = "".join(each if each.isprintable() else " " for each in text)[:_SHOWN].strip()
        pause = self.network.pause(answer.headers)
        match status:
            case HTTPStatus.UNAUTHORIZED:
                why = "refuses the token: it is wrong, was revoked or has expired, so connect again with another"
            case HTTPStatus.FORBIDDEN:
                why = f"says that the token may not do this: {detail}"
            case HTTPStatus.NOT_FOUND:
                why = "does not find it, or the token may not see it"
            case _ if status == _TOO_MANY:
                return HostRefused(f"{self._host} asks to wait: too many requests", status, retry_after=pause or _PAUSE)
            case _:
                why = f"answers {status}: {detail}" if detail else f"answers {status}"
        return HostRefused(f"{self._host} {why}", status, retry_after=pause, detail=detail)


def _with_query(path: str, query: Mapping[str, str | int]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
