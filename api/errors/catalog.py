"""The errors of the API, read from ``catalog.toml`` (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Problem", "error_catalog"]


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
    table = tomllib.loads(resources.files("api.errors").joinpath("catalog.toml").read_text("utf-8"))
    return MappingProxyType({code: Problem(code, **facts) for code, facts in table.items()})
