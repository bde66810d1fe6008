"""The image puller: pulls an image once for all jobs that wait for it (engine.md, "Leases", "Images")."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.messages import Demand, ImageFailed, ImagesAwaited, Look, Stirred, TaskDone, TaskFailed
from actors.reaper import make_room
from actors.runtime import Runtime, post
from actors.supervision import Supervised
from actors.vms import NoRoom, VmError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import AwaitingJob

__all__ = ["ImagePuller"]

_GB = 2**30
_AT_ONCE = 4
_FAILURE_SECONDS = 30.0
_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 60.0
_LONGEST_LINE = 200
_QUEUED = "other images are pulled first"


class _NotAwaited(Exception):
    """No job waits for the image any more."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reason of a failed pull, which is not repeated before ``until`` (monotonic seconds)."""

    why: str
    until: float


class ImagePuller(Supervised):
    """Pulls the images that jobs wait for into the store, each once, and a few at a time.

    The waiting jobs are in the storage (`Queue.await_image`), so that a successor goes on with them. A failure is
    remembered for a while, so that many jobs with an image that cannot be pulled cause only one attempt.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._pulls: dict[str, _Pull] = {}
        self._queued: dict[str, None] = {}
        self._failures: dict[str, _Failure] = {}

    def begin(self) -> None:
        """Start the pulls that jobs already wait for."""
        self._runtime.board.pulls.clear()
        self._take_up()

    def teardown(self) -> None:
        """End all pulls and remove what they have so far."""
        for pull in self._pulls.values():
            pull.end()

    def handle(self, message: object) -> None:
        """Start pulls, end those that no job waits for any more, and queue the jobs again."""
        match message:
            case ImagesAwaited():
                self._take_up()
                for pull in self._pulls.values():
                    pull.welcome()
            case Look():
                for image, pull in self._pulls.items():
                    if not self._runtime.storage.queue.is_awaited(image):
                        pull.end()
            case TaskDone(image, _):
                self._forget(image)
                self._runtime.observations.image(pulled=True)
                self._runtime.storage.queue.image_arrived(image)
                post(self._runtime.crew.pool, Demand())
                self._take_up()
            case TaskFailed(image, error):
                self._forget(image)
                if not isinstance(error, _NotAwaited):
                    self.log.warning("the image %s cannot be had: %s", image, error)
                    self._runtime.observations.image(pulled=False)
                    until = self._runtime.clock.monotonic() + _FAILURE_SECONDS
                    self._failures[image] = _Failure(str(error), until)
                self._take_up()

    def _forget(self, image: str) -> None:
        self._pulls.pop(image, None)
        self._runtime.board.pulls.pop(image, None)

    def _take_up(self) -> None:
        """Start as many pulls as may run at once, in the order of the requests."""
        now, awaited = self._runtime.clock.monotonic(), self._runtime.storage.queue.awaited_images()
        self._failures = {image: each for image, each in self._failures.items() if each.until > now}
        for image in awaited:
            if image in self._failures:
                self._refuse(image, self._failures[image].why)
            elif image not in self._pulls:
                self._queued.setdefault(image)
                self._runtime.board.pulls[image] = _QUEUED
        for image in list(self._queued):
            if len(self._pulls) == _AT_ONCE:
                return
            del self._queued[image]
            self._runtime.board.pulls.pop(image, None)
            if image in awaited:
                self._pulls[image] = pull = _Pull(self._runtime, image)
                self.work(image, pull.run)

    def _refuse(self, image: str, why: str) -> None:
        for job in self._runtime.storage.queue.awaiting(image):
            post(self._runtime.crew.root, ImageFailed(job.build_id, job.job_id, why))


class _Pull:
    """One pull, which reports its progress in the logs of the waiting jobs, less and less often.

    `run` is for the thread that pulls; `welcome` and `end` are for other threads.
    """

    def __init__(self, runtime: Runtime, image: str) -> None:
        self._runtime = runtime
        self._image = image
        self._ended = threading.Event()
        self._newcomers = threading.Event()
        self._told: set[int] = set()
        self._line = self._said = ""
        self._due = float("-inf")
        self._pause = _FIRST_PAUSE

    def end(self) -> None:
        """Make `run` raise soon, and leave nothing in the store."""
        self._ended.set()

    def welcome(self) -> None:
        """Report the progress to the jobs that have begun to wait meanwhile."""
        self._newcomers.set()

    def run(self) -> None:
        """Pull the image. Raises VmError, whose message says what to do, and _NotAwaited after `end`."""
        keep_free = int(self._runtime.settings.pool.low_disk_gb * _GB)
        fetch = partial(
            self._runtime.images.fetch, self._image, keep_free=keep_free, progress=self._progress, check=self._check
        )
        self._progress(f'the image "{self._image}" is not on this host yet: it is pulled first')
        self._check()
        try:
            try:
                fetch()
            except NoRoom as error:
                make_room(self._runtime, error.lacking)
                fetch()
        except VmError as error:
            self._tell(str(error), self._jobs())
            raise
        self._tell(f'the image "{self._image}" is here', self._jobs())

    def _progress(self, line: str) -> None:
        self._line = "".join(filter(str.isprintable, line))[:_LONGEST_LINE]
        self._runtime.board.pulls[self._image] = self._line

    def _check(self) -> None:
        if self._ended.is_set():
            raise _NotAwaited
        now = self._runtime.clock.monotonic()
        if self._line != self._said and now >= self._due:
            self._due, self._pause = now + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            self._said = self._line
            self._tell(self._line, self._jobs())
        elif self._newcomers.is_set():
            self._newcomers.clear()
            line = f'the image "{self._image}" is being pulled already: {self._line}'
            self._tell(line, [job for job in self._jobs() if job.job_id not in self._told])

    def _jobs(self) -> list[AwaitingJob]:
        return self._runtime.storage.queue.awaiting(self._image)

    def _tell(self, line: str, jobs: Iterable[AwaitingJob]) -> None:
        """Write a line into the logs of jobs; a log that cannot be written is skipped."""
        for job in jobs:
            self._told.add(job.job_id)
            with suppress(OSError), self._runtime.storage.logs.writer(job.build_uuid, job.uuid, job.attempt) as log:
                log.notice(line)
            post(self._runtime.crew.hub, Stirred(job.uuid))
