"""Answers about what is on the disk alone (engine.md, "After a crash, and after a power cut")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from storage import Storage

__all__ = ["DurableAnswers"]


class DurableAnswers:
    """Holds an answer back until all that it may tell is on the disk.

    That includes what other threads have just written. Bodies that are made while they are sent wait by themselves.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def process_response(self, _req: falcon.Request, _resp: falcon.Response, *_: object) -> None:
        """Wait, which takes nothing unless something is being written. Raises DatabaseUnavailable."""
        self._storage.await_disk()
