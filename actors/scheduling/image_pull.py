"""One pull of an image, with progress in the logs of the jobs that wait for it (engine.md, "Images")."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from actors.vms import InsufficientDisk, VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.log_watchers import LogWatchers
    from actors.vms import Images
    from storage import AwaitingJob, Clock, Storage

_FIRST_PAUSE = 2.0
_MAX_PAUSE = 60.0
_MAX_LINE = 200


class NotAwaited(Exception):
    """No job waits for the image any more."""


class ImagePull:
    """One pull, which reports its progress in the logs of the waiting jobs, less and less often.

    `run` is for the thread that pulls; `note_new_jobs` and `end` are for other threads.
    """

    def __init__(
        self,
        *,
        image: str,
        storage: Storage,
        images: Images,
        clock: Clock,
        keep_free: int,
        make_room: Callable[[int], None],
        progress: dict[str, str],
        watchers: LogWatchers,
    ) -> None:
        self._image = image
        self._storage = storage
        self._images = images
        self._clock = clock
        self._keep_free = keep_free
        self._make_room = make_room
        self._progress = progress
        self._watchers = watchers
        self._ended = threading.Event()
        self._has_new_jobs = threading.Event()
        self._informed: set[int] = set()
        self._line = self._logged = ""
        self._due = float("-inf")
        self._pause = _FIRST_PAUSE

    def end(self) -> None:
        """Make `run` raise soon, and leave nothing in the store."""
        self._ended.set()

    def note_new_jobs(self) -> None:
        """Report the progress to the jobs that have begun to wait since."""
        self._has_new_jobs.set()

    def run(self) -> None:
        """Pull the image. Raises VmError, whose message says what to do, and NotAwaited after `end`."""
        fetch = partial(
            self._images.fetch, self._image, keep_free=self._keep_free, progress=self._report, check=self._check
        )
        self._report(f'the image "{self._image}" is not on this host yet: it is pulled first')
        self._check()
        try:
            try:
                fetch()
            except InsufficientDisk as error:
                self._make_room(error.lacking)
                fetch()
        except VmError as error:
            self._log_to(str(error), self._jobs())
            raise
        self._log_to(f'the image "{self._image}" is here', self._jobs())

    def _report(self, line: str) -> None:
        self._line = "".join(filter(str.isprintable, line))[:_MAX_LINE]
        self._progress[self._image] = self._line

    def _check(self) -> None:
        if self._ended.is_set():
            raise NotAwaited
        now = self._clock.monotonic()
        if self._line != self._logged and now >= self._due:
            self._due, self._pause = now + self._pause, min(2 * self._pause, _MAX_PAUSE)
            self._logged = self._line
            self._log_to(self._line, self._jobs())
        elif self._has_new_jobs.is_set():
            self._has_new_jobs.clear()
            line = f'the image "{self._image}" is being pulled already: {self._line}'
            self._log_to(line, [job for job in self._jobs() if job.job_id not in self._informed])

    def _jobs(self) -> list[AwaitingJob]:
        return self._storage.queue.awaiting(self._image)

    def _log_to(self, line: str, jobs: Iterable[AwaitingJob]) -> None:
        """Write a line into the logs of jobs; a log that cannot be written is skipped."""
        for job in jobs:
            self._informed.add(job.job_id)
            with suppress(OSError), self._storage.logs.writer(job.build_uuid, job.uuid, job.attempt) as log:
                log.notice(line)
            self._watchers.notify(job.uuid)
