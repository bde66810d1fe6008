"""Changes of a build as Server-Sent Events: taken and written once, however many people watch it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.console.builds.states import BuildView, JobView

_KEPT = 16
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Moment:
    """A build at one moment."""

    view: BuildView

    @cached_property
    def tag(self) -> str:
        """The name of its content, and the id of the event that brings a page up to it."""
        return hashlib.sha256(repr(self.view).encode()).hexdigest()[:16]


class LiveBuild:
    """One build for all of its watchers. Safe in any thread.

    ``take`` reads the build, ``write`` makes the HTML of a summary or a job. Reading again is put off for half a
    second, so that a build of many short jobs costs no more than others.
    """

    def __init__(
        self,
        take: Callable[[], BuildView],
        write: Callable[[BuildView, tuple[JobView, ...]], str],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._take = take
        self._write = write
        self._pause = pause
        self._lock = threading.Lock()
        self._begun = -float("inf")
        self._moments: OrderedDict[str, Moment] = OrderedDict()
        self._events: dict[tuple[str, str], bytes] = {}

    def latest(self, changed_at: float) -> Moment:
        """Return the build as it was after a monotonic time."""
        with self._lock:
            if self._begun <= changed_at:
                self._pause(max(0.0, min(_PAUSE_SECONDS, self._begun + _PAUSE_SECONDS - time.monotonic())))
                self._begun = time.monotonic()
                self._keep(Moment(self._take()))
            return next(reversed(self._moments.values()))

    def event(self, seen: str, now: Moment) -> bytes:
        """Return the event that brings a page from ``seen`` to a moment; from an unknown one, all of it."""
        with self._lock:
            key = (seen if seen in self._moments else "", now.tag)
            if key not in self._events:
                self._events[key] = self._encode(self._moments.get(seen), now)
            return self._events[key]

    def _keep(self, moment: Moment) -> None:
        self._moments[moment.tag] = moment
        self._moments.move_to_end(moment.tag)
        while len(self._moments) > _KEPT:
            self._moments.popitem(last=False)
        self._events = {key: event for key, event in self._events.items() if key[1] == moment.tag}

    def _encode(self, before: Moment | None, now: Moment) -> bytes:
        known = {} if before is None else {job.position: job for job in before.view.jobs}
        changed = tuple(job for job in now.view.jobs if known.get(job.position) != job)
        html = self._write(now.view, changed)
        states = {job.position: job.shown for job in changed}
        have_joined = any(job.position not in known and job.generated_by for job in changed)
        return (
            f"id: {now.tag}\nevent: states\ndata: {json.dumps(states)}\n\n".encode()
            + b"event: changes\n"
            + b"".join(b"data: %s\n" % line.encode() for line in html.splitlines())
            + b"\n"
            + (b"event: joined\ndata: joined\n\n" if have_joined else b"")
        )


@dataclass(slots=True)
class _Watched:
    live: LiveBuild
    watchers: int = 0


@dataclass(slots=True)
class LiveBuilds:
    """The builds that somebody watches. Safe in any thread."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _watched: dict[int, _Watched] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of builds that somebody watches."""
        return len(self._watched)

    @contextmanager
    def watch(self, build_id: int, make: Callable[[], LiveBuild]) -> Iterator[LiveBuild]:
        """Share a build with its other watchers; the first one makes it."""
        with self._lock:
            watched = self._watched.setdefault(build_id, _Watched(make()))
            watched.watchers += 1
        try:
            yield watched.live
        finally:
            with self._lock:
                watched.watchers -= 1
                if not watched.watchers:
                    del self._watched[build_id]
