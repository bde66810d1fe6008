"""Operations of the API that commands call by hand; a test compares them with the document."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOUNS = {"org": "organization"}
_ORG = "/api/v0/organizations/{org}"
_PIPELINE = _ORG + "/pipelines/{pipeline}"
_BUILD = _PIPELINE + "/builds/{number}"
_JOB = _BUILD + "/jobs/{job_id}"


class RequestFailed(Exception):
    """The service refused a request; ``code`` is an error code of the API, the message is for the user."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class ServiceUnreachable(Exception):
    """Nothing answers at the address; the message says what to check."""

    retryable = True


T = TypeVar("T")


@immutable
class Nothing:
    """An empty answer."""


@immutable
class Page(Generic[T]):
    """One page of a list, or a whole list whose answer has no cursor."""

    data: list[T]
    next_cursor: str | None = None


@immutable
class Operation(Generic[T]):
    """An operation of the OpenAPI document, by its id there.

    ``answer`` is the data class of the fields that are read of the answer. ``body`` has the fields that may be sent,
    ``query`` the parameters. A test compares all of it with the document.
    """

    id: str
    method: str
    path: str
    answer: type[T]
    body: frozenset[str] = frozenset()
    query: frozenset[str] = frozenset()

    def at(self, names: Mapping[str, object]) -> str:
        """Return the path with names in the place of its parameters, as `filled` does."""
        return filled(self.path, names)


def filled(path: str, names: Mapping[str, object]) -> str:
    """Return a path with names in the place of its parameters; none of them reaches beyond its own part.

    Raises RequestFailed if a name cannot be one.
    """
    for parameter, value in names.items():
        if "/" in str(value):
            noun = _NOUNS.get(parameter, parameter)
            raise RequestFailed(HTTPStatus.NOT_FOUND, "not_found", f'there is no {noun} "{value}"')
    return path.format_map({name: quote(str(value), safe="").replace(".", "%2E") for name, value in names.items()})


@immutable
class StatusView:
    """The answer of a service that is there."""

    status: str


@immutable
class TokenView:
    """A session token, shown only once."""

    token: str


PING = Operation("ping", "GET", "/api/v0/ping", StatusView)
CLAIM = Operation("cliClaimV2", "POST", "/api/v2/auth/cli/claim", TokenView, frozenset({"nonce"}))
REDEEM = Operation("cliRedeemV2", "POST", "/api/v2/auth/cli/redeem", TokenView, frozenset({"code"}))
LOGOUT = Operation("logout", "POST", "/api/v0/auth/logout", Nothing)

GET_LOG: Operation[Any] = Operation("getJobLog", "GET", _JOB + "/log", Nothing, query=frozenset({"wait"}))
GET_RENDER_LOG: Operation[Any] = Operation(
    "getRenderLog", "GET", _BUILD + "/render-log", Nothing, query=frozenset({"wait"})
)
