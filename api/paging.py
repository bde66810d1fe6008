"""Keyset pages of lists, by ``limit`` and ``cursor`` (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel

from api.bodies import answer
from api.errors import ApiError
from api.operations import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.signing import Signer
    from storage import Page

__all__ = ["PAGE_ERRORS", "PAGE_PARAMETERS", "PageRecord", "Pager"]

_DEFAULT_LIMIT = 50
_MAX_LIMIT = 100
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)

PAGE_PARAMETERS = (
    Parameter(
        "limit",
        "How many rows at most.",
        {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT, "default": _DEFAULT_LIMIT},
    ),
    Parameter("cursor", "`next_cursor` of the page before; left out, the first page comes.", {"type": "string"}),
)
PAGE_ERRORS = ("invalid_limit", "invalid_cursor")

Row = TypeVar("Row")
Record = TypeVar("Record", bound=BaseModel)


class PageRecord(BaseModel, Generic[Record]):
    """One page of a list; ``next_cursor`` is null on the last one."""

    data: list[Record]
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
        read: Callable[[int, int | None], Page[Row]],
        record: Callable[[Row], BaseModel],
    ) -> None:
        """Respond with the requested page of the list named by ``scope``.

        ``read`` takes a limit and the key after which the page starts, and returns at most that many rows. Raises
        ApiError ``invalid_limit`` or ``invalid_cursor``; an empty parameter counts as absent.
        """
        page = read(_limit(req.get_param("limit") or None), self._after(req.get_param("cursor") or None, scope))
        cursor = None
        if page.next_key is not None:
            cursor = self._signer.sign(f"cursor:{scope}", str(page.next_key).encode())
        answer(resp, PageRecord(data=[record(row) for row in page.rows], next_cursor=cursor))

    def _after(self, cursor: str | None, scope: str) -> int | None:
        if cursor is None:
            return None
        payload = self._signer.open(f"cursor:{scope}", cursor)
        if payload is None:
            raise ApiError("invalid_cursor", "cursor: expected a next_cursor that this list gave")
        return int(payload)


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= _MAX_LIMIT:
        raise ApiError("invalid_limit", f"limit: expected a whole number from 1 to {_MAX_LIMIT}")
    return int(text)
