"""The errors of operations, read from ``catalog.toml``, and the exception with the code of one.

The rules are in wire-decisions.md, "Everywhere".
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_CHARS = 100
_ENDPOINT = "/api/"
_FROM_THE_FIRST_PAGE = "Look for it from the first page: it may have another name or be gone, or you are no member."


@immutable
class Problem:
    """One error. Clients branch on ``code``; ``meaning`` and ``remedy`` are sentences for people."""

    code: str
    status: int
    meaning: str
    remedy: str

    @property
    def type(self) -> str:
        """The coarse kind of the error, which follows from the status."""
        return _TYPES[self.status]

    @property
    def remedy_on_pages(self) -> str:
        """The remedy for people with a browser, whom an endpoint of the API does not help."""
        return _FROM_THE_FIRST_PAGE if _ENDPOINT in self.remedy else self.remedy


_TYPES: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request",
        401: "unauthorized",
        402: "billing",
        403: "forbidden",
        404: "not_found",
        405: "invalid_request",
        409: "conflict",
        410: "conflict",
        413: "invalid_request",
        415: "invalid_request",
        416: "invalid_request",
        422: "validation_failed",
        429: "rate_limited",
        431: "invalid_request",
        500: "server_error",
        502: "bad_gateway",
        503: "service_unavailable",
    }
)


@cache
def error_catalog() -> Mapping[str, Problem]:
    """Return all errors by their codes; the file is read once, on first use."""
    import tomllib  # noqa: PLC0415 - only an error needs it
    from importlib import resources  # noqa: PLC0415 - the same

    table = tomllib.loads(resources.files("api.errors").joinpath("catalog.toml").read_text("utf-8"))
    return MappingProxyType({code: Problem(code, **facts) for code, facts in table.items()})


class ApiError(Exception):
    """A refused request; ``code`` is one of the catalog's and determines the status."""

    def __init__(
        self, code: str, message: str, *, headers: Mapping[str, str] | None = None, build_number: int | None = None
    ) -> None:
        super().__init__(message)
        self.problem = error_catalog()[code]
        self.message = message
        self.headers = headers or {}
        self.build_number = build_number

    @property
    def code(self) -> str:
        """The code, on which clients branch."""
        return self.problem.code

    @classmethod
    def not_found(cls, noun: str, name: str) -> ApiError:
        """Return the error that no ``noun`` has this name; it quotes the start of the name."""
        shown = name if len(name) <= _MAX_CHARS else f"{name[:_MAX_CHARS]}…"
        return cls(f"{noun}_not_found", f'there is no {noun} "{shown}"')

    @classmethod
    def unauthorized(cls, message: str, code: str = "unauthorized") -> ApiError:
        """Return the error that asks for credentials, with the header that RFC 6750 requires."""
        return cls(code, message, headers={"WWW-Authenticate": "Bearer"})
