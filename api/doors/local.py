"""The door of the owner of the host: operations in process, without HTTP."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from api.middleware.audit import subject_of
from api.operations.operation import GET, Call, Span
from storage import DatabaseUnavailable, document_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from api.operations.operation import Operation
    from storage import Clock, Page, Storage

__all__ = ["LocalDoor"]

R = TypeVar("R")

_log = logging.getLogger(__name__)

_ROWS = 100


class LocalDoor:
    """Performs operations for the owner of the host, and notes those that change something in the audit.

    ``actor`` and ``origin`` are the owner there. Raises ApiError, and StorageError as the operations do.
    """

    def __init__(self, storage: Storage, clock: Clock, actor: str, origin: str) -> None:
        self._call = Call(storage, clock, caller=None)
        self._actor = actor
        self._origin = origin

    def perform(self, operation: Operation[R], names: Mapping[str, str], body: Mapping[str, object] | None = None) -> R:
        """Perform an operation on the things that ``names`` gives the path."""
        result = operation.perform(self._call, names, lambda: dict(body or {}))
        if operation.method is not GET:
            self._note(operation, names, result)
        return result

    def rows(self, operation: Operation[Page[Any]] | Operation[list[Any]], names: Mapping[str, str]) -> Iterator[Any]:
        """Yield the rows of a list, to its end."""
        span = Span(_ROWS)
        while True:
            page = operation.perform(self._call, names, dict, span)
            if isinstance(page, list):
                yield from page
                return
            yield from page.rows
            if page.next_key is None:
                return
            span = Span(_ROWS, page.next_key)

    def _note(self, operation: Operation[Any], names: Mapping[str, str], result: object) -> None:
        shown = None if result is None else SimpleNamespace(**document_of(result))
        subject = subject_of(operation.path, names, shown)
        audit, organization = self._call.storage.audit, names.get("org")
        try:
            audit.write(self._actor, operation.id, subject, "box", origin=self._origin, organization=organization)
        except DatabaseUnavailable:
            _log.exception("%s of %s was made, but could not be written to the audit", operation.id, subject)
