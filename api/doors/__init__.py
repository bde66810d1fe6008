"""Doors to the operations: HTTP, the forms of the console, and the command on the box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from storage import on_first_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from api.doors.local import LocalDoor, creation_elsewhere, service_elsewhere
    from api.operations.operation import Download, Operation
    from storage import Page
else:
    __getattr__ = on_first_use(__name__)

R = TypeVar("R")


class Door(Protocol):
    """The way of a command to the operations, on the box or of a server."""

    @property
    def owners(self) -> bool:
        """True if it is the owner's of the host, for whom there are operations that no caller has."""
        ...

    def perform(self, operation: Operation[R], names: Mapping[str, str], body: object = None) -> R:
        """Perform an operation on the things that ``names`` gives the path. Raises the refusal of this door.

        An operation of the owner takes its body as an object of its class, each other one a document.
        """
        ...

    def rows(self, operation: Operation[Page[Any]] | Operation[list[Any]], names: Mapping[str, str]) -> Iterator[Any]:
        """Yield the rows of a list, to its end. Raises the refusal of this door."""
        ...

    def download(
        self, operation: Operation[Download], names: Mapping[str, str], start: int
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file from a byte on: its chunks as they arrive. Raises the refusal of this door."""
        ...
