"""Keyset pages of lists, by ``limit`` and ``cursor`` (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from api.bodies import answer
from api.errors.catalog import ApiError
from api.fields import WHOLE_NUMBER
from api.openapi.operations import Parameter
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.signing import Signer
    from storage import Page

_DEFAULT_LIMIT = 50
_MAX_LIMIT = 100
_LIMIT = TypeAdapter(Annotated[int, Field(ge=1, le=_MAX_LIMIT), WHOLE_NUMBER])

PAGE_PARAMETERS = (
    Parameter("limit", "The most rows to return.", {**_LIMIT.json_schema(), "default": _DEFAULT_LIMIT}),
    Parameter("cursor", "`next_cursor` of the previous page; leave it out for the first page.", {"type": "string"}),
)
PAGE_ERRORS = ("invalid_limit", "invalid_cursor")

RowT = TypeVar("RowT")
RecordT = TypeVar("RecordT", bound=BaseModel)


class PageRecord(JsonModel, Generic[RecordT]):
    """One page of a list; ``next_cursor`` is null on the last one."""

    data: list[RecordT]
    next_cursor: str | None


class Pager:
    """Responds with pages of lists.

    A cursor is the last row's key, signed for its list, so that a cursor of another list, or a forged one, is refused
    rather than misread.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def answer(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        scope: str,
        read: Callable[[int, int | None], Page[RowT]],
        record: Callable[[RowT], BaseModel],
    ) -> None:
        """Respond with the requested page of the list named by ``scope``.

        ``read`` takes a limit and the key after which the page starts, and returns at most that many rows. Raises
        ApiError ``invalid_limit`` or ``invalid_cursor``; an empty parameter counts as absent.
        """
        self.respond(resp, scope, read(*self.asked(req, scope)), record)

    def asked(self, req: falcon.Request, scope: str) -> tuple[int, int | None]:
        """Return the limit that a request asks for, and the key after which the page starts. Raises ApiError."""
        return _limit(req.get_param("limit") or None), self._after(req.get_param("cursor") or None, scope)

    def respond(self, resp: falcon.Response, scope: str, page: Page[RowT], record: Callable[[RowT], BaseModel]) -> None:
        """Respond with a page of the list named by ``scope``."""
        cursor = None
        if page.next_key is not None:
            cursor = self._signer.sign(f"cursor:{scope}", page.next_key)
        answer(resp, PageRecord(data=[record(row) for row in page.rows], next_cursor=cursor))

    def _after(self, cursor: str | None, scope: str) -> int | None:
        if cursor is None:
            return None
        key: int | None = self._signer.open(f"cursor:{scope}", cursor)
        if key is None:
            raise ApiError("invalid_cursor", "cursor: expected a next_cursor of this list")
        return key


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    try:
        return _LIMIT.validate_python(text)
    except ValidationError:
        raise ApiError("invalid_limit", f"limit: expected a whole number from 1 to {_MAX_LIMIT}") from None
