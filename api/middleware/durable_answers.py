"""Answers about what is on the disk alone (engine.md, "After a crash")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from storage import Storage


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

    def process_response(self, req: falcon.Request, resp: falcon.Response, resource: object, *_: object) -> None:
        """Wait; that takes no time unless something is being written. Raises DatabaseUnavailable.

        If others want to be served, the server holds the answer back itself (see Channel), and serves them meanwhile.
        An answer that tells nothing of what is stored waits for nothing, but is refused, too, if the disk has failed.
        """
        hold = req.env.get("ci_daemon.hold_answer")
        if getattr(resource, "tells_nothing_stored", False):
            self._storage.await_disk(lambda _: True)
        else:
            self._storage.await_disk(None if hold is None else partial(_hold, hold, resp))


def _hold(hold: Callable[[Callable[[], None] | None], bool], resp: falcon.Response, wait: Callable[[], None]) -> bool:
    """Let the server hold the answer until the wait is over, if its body is there and not yet to be read."""
    return hold(wait if resp.stream is None else None)
