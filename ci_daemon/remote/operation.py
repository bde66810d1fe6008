"""One operation of the API as a client calls it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

from ci_daemon.remote.failures import RequestFailed
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_NOUNS = {"org": "organization"}


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
