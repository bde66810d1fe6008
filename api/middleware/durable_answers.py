"""Answers about what is on the disk alone (engine.md, "After a crash, and after a power cut")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from storage import Storage

__all__ = ["DurableAnswers"]


class DurableAnswers:
    """Holds an answer back until all that it may tell is on the disk.

    That includes what other threads have just written. What the request itself writes waits here, too, so that it
    waits once. Bodies that are made while they are sent wait by themselves.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def process_request(self, *_: object) -> None:
        """Let the request write without waiting. It removes no files, and tells nobody else."""
        self._storage.write_ahead()

    def process_response(self, req: falcon.Request, *_: object) -> None:
        """Wait, which takes nothing unless something is being written. Raises DatabaseUnavailable.

        The server's call for waits lets another thread serve meanwhile.
        """
        self._storage.await_disk(req.env.get("waitress.client_disconnected"))
