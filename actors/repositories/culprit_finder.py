"""The culprit finder: takes on the searches for commits that broke default branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

from actors.messages import CulpritFinderMessage, Drain, PollStorage
from actors.supervision import Supervised
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.parts import Parts
    from actors.repositories.culprits.searching import CulpritSearching
    from actors.repositories.pushes import PushBuilds
    from storage import CulpritSearch

_AT_ONCE = 2
_PAUSE_SECONDS = 60.0


@immutable
class _Advance:
    """Work on a worker thread: take one search on."""

    search_id: int

    def __str__(self) -> str:
        return f"search {self.search_id} for a culprit"


@immutable
class _Advanced:
    """Worker: this search has builds that run, has ended, or waits for ``pause`` seconds."""

    search_id: int
    pause: float = 0.0


_Message: TypeAlias = CulpritFinderMessage | _Advanced


class CulpritFinder(Supervised[_Message, _Advance]):
    """Takes the open searches on, two at a time.

    A search goes in rounds: it builds some commits at once, and looks again when all these builds have ended. What it
    does next follows from its row and its builds alone, so that it goes on after a crash.
    """

    def __init__(self, parts: Parts, *, pushes: Callable[[], PushBuilds]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._parts = parts
        self._storage = parts.storage
        self._clock = parts.clock
        self._pushes = pushes
        self._working: set[int] = set()
        self._rests_until: dict[int, float] = {}
        """The searches that could not go on, and when they are tried again, by the monotonic clock."""

        self._draining = False

    def handle(self, message: _Message) -> None:
        """Take on what can be."""
        match message:
            case PollStorage():
                if not self._draining and self._storage.builds.has_culprit_searches():
                    self._advance_open()
            case Drain():
                self._draining = True
            case _Advanced(search_id, pause):
                self._working.discard(search_id)
                if pause:
                    self._rests_until[search_id] = self._clock.monotonic() + pause
            case _:
                assert_never(message)

    def on_task_error(self, task: _Advance, error: Exception) -> None:
        """Log the error; the search is tried again a minute later."""
        super().on_task_error(task, error)
        self.handle(_Advanced(task.search_id, _PAUSE_SECONDS))

    def _advance_open(self) -> None:
        now, searching = self._clock.monotonic(), self._searching()
        self._rests_until = {each: until for each, until in self._rests_until.items() if until > now}
        for search in self._storage.culprits.open():
            if len(self._working) >= _AT_ONCE:
                return
            if search.id not in self._working and search.id not in self._rests_until and searching.is_due(search):
                self._working.add(search.id)
                self._start(searching, search)

    def _start(self, searching: CulpritSearching, search: CulpritSearch) -> None:
        def run() -> _Advanced:
            return _Advanced(search.id, 0.0 if searching.advance(search) else _PAUSE_SECONDS)

        self.work(_Advance(search.id), run)

    def _searching(self) -> CulpritSearching:
        from actors.repositories.culprits.searching import CulpritSearching  # noqa: PLC0415 - few services search ever

        return CulpritSearching(self._parts, self._pushes)
